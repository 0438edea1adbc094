/* What makes a process with CUDA state impossible to dump: open device files and mappings of them. */
#ifndef SIM_REFERENCES_H
#define SIM_REFERENCES_H

#include <stddef.h>

#include "machine.h"

struct references {
  int control;           /* DIR/dev/nvidiactl */
  int gpu[SIM_MAX_GPUS]; /* DIR/dev/nvidia0, ... */
  void *mapping;         /* of a device, one page or two */
  size_t mapping_size;
};

void references_open(struct references *references, int gpus);
void references_close(struct references *references);

/* Opens a device file of the machine ("nvidiactl", "nvidia0"), or returns -1. */
int device_open(const char *name);

#endif
