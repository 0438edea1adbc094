/* The system calls of the thread of a target that serves the driver (its restore thread), by ptrace. */
#ifndef MEASURE_TRACE_H
#define MEASURE_TRACE_H

#include <stdint.h>

struct trace;

/* Follows that thread from now on, until trace_stop. NULL with a message if it cannot be seized. */
struct trace *trace_start(int pid, int tid);

/* Prints how often each call was made and how long it took, and one by one those that change memory or take long. */
void trace_stop(struct trace *trace);

/* Follows the thread only until it maps a large piece of private memory: the save area. The area is then
 * mapped without MAP_POPULATE, and gets huge pages before the thread continues alone. `found` is called from another thread
 * at that moment, with the result of madvise. */
struct trace *trap_start(int pid, int tid, void (*found)(void *, uint64_t, uint64_t, long, int), void *argument);
void trap_stop(struct trace *trace);

#endif
