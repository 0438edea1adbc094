/* The target's threads that do something all the time, also while the process is checkpointed. */
#ifndef MEASURE_WORKERS_H
#define MEASURE_WORKERS_H

#include "board.h"
#include "calls.h"

/* pinned     reads and writes memory of cuMemHostAlloc
 * register   the same with its own memory, page-locked by cuMemHostRegister
 * mapper     maps, writes, checks and unmaps memory
 * malloc     the same with malloc and free, blocks of up to 64 MiB
 * nvml       asks NVML for the utilization each 100 ms
 * Ends the program with a message if the libraries cannot do it. */
void worker_start(struct board *board, const char *kind);

/* Memory page-locked both ways that no thread touches: makes it, then says whether CPU and GPU still see in it what was
 * written. */
void quiet_start(void);
void quiet_check(char *answer);

#endif
