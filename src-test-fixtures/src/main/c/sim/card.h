/* The memory of each GPU that each process of the machine uses. */
#ifndef SIM_CARD_H
#define SIM_CARD_H

#include <stdbool.h>
#include <stdint.h>

#include "machine.h"

/* What one process uses: the content of its file dev/nvidia-usage/PID.N. The process keeps that file open and
 * locked (flock) while it uses a GPU; a file that is not locked belongs to a dead process and is swept away. */
struct usage {
  int pid;
  int padding;
  uint64_t used[SIM_MAX_GPUS];
};

/* Opens this process's record, empty, and returns its descriptor, or -1. */
int card_join(void);

/* Closes and removes the record: the process uses no GPU any more. */
void card_leave(int record);

/* Writes `usage` into the record if every GPU has room for it: CUDA_SUCCESS, CUDA_ERROR_OUT_OF_MEMORY (nothing
 * changed) or CUDA_ERROR_OPERATING_SYSTEM. */
CUresult card_charge(int record, const struct usage *usage);

/* Bytes of the GPU in use by all living processes. False when that cannot be read, for want of descriptors say. */
bool card_used(int gpu, uint64_t *used);

/* Calls visit for every living process that uses a GPU. False when not all could be read. */
bool card_visit(void (*visit)(const struct usage *usage, void *argument), void *argument);

#endif
