/* The memory of each GPU that each process of the machine uses. */
#ifndef SIM_CARD_H
#define SIM_CARD_H

#include <stdbool.h>
#include <stdint.h>

#include "machine.h"

/* What one process uses: the content of its file state/usage/PID.NUMBER. The process keeps that file mapped and
 * locked (flock) while it uses a GPU; a file that is not locked belongs to a dead process and is swept away. The mapping
 * alone holds the lock: unlike a descriptor, no child inherits it, not even between its fork and its fork handler. On
 * overlayfs it cannot: there the file is dev/nvidia-usage/PID.NUMBER, and stays open as well. */
struct usage {
  int pid;
  int number;
  uint64_t used[SIM_MAX_GPUS];
};

/* Creates this process's record, empty, and returns it, or NULL. */
struct usage *card_join(void);

/* Removes the record, if it is not NULL: the process uses no GPU any more. */
void card_leave(struct usage *record);

/* Writes `used` into the record if every GPU has room for it: CUDA_SUCCESS, CUDA_ERROR_OUT_OF_MEMORY (nothing
 * changed) or CUDA_ERROR_OPERATING_SYSTEM. */
CUresult card_charge(struct usage *record, const uint64_t used[SIM_MAX_GPUS]);

/* Bytes of the GPU in use by all living processes. False when that cannot be read, for want of descriptors say. */
bool card_used(int gpu, uint64_t *used);

/* Calls visit for every living process that uses a GPU. False when not all could be read. */
bool card_visit(void (*visit)(const struct usage *usage, void *argument), void *argument);

#endif
