/* Threads that poll, and whose polls end in another way than by a return: a signal handler interrupts them, on an
 * alternate stack or on theirs, for a long time; they are left by a cancellation; the process forks; they run on
 * small stacks. Each function is a round of a thread. */
#ifndef WORKLOAD_INTERRUPTED_H
#define WORKLOAD_INTERRUPTED_H

#include <stdbool.h>

#include "../cuda_abi.h"

/* Once, before the others: the context of the threads, the call to poll with, and what is called with the text of a
 * failure. */
void interrupted_start(CUcontext context, CUresult (*poll)(CUstream), void (*fail)(const char *what, int result));

/* Polls; every poll is soon interrupted, for 0.3 s on an alternate stack. */
bool interrupted_alternate(void);

/* The same for 3 s on the stack of the poll. */
bool interrupted_long(void);

/* The same until another thread posts a semaphore, after 0.3 s. */
bool interrupted_waiting(void);

/* Interrupts the threads of the three functions above. */
bool interrupted_by_signals(void);

/* Polls in a thread that is cancelled soon. */
bool interrupted_cancel(void);

/* Forks beside threads that poll; the child polls. */
bool interrupted_fork(void);

/* Polls on a stack of 8 KiB. */
bool interrupted_fiber(void);

/* Polls. */
bool interrupted_poll(void);

#endif
