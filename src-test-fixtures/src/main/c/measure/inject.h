/* System calls run by a thread of another process that is itself waiting in one. */
#ifndef MEASURE_INJECT_H
#define MEASURE_INJECT_H

#include <sys/user.h>

struct captive {
  int tid;
  struct user_regs_struct registers;
};

/* Stops that thread alone; false with a message if it is not waiting in a system call. All three functions must be
 * called from one thread. */
int captive_take(struct captive *captive, int tid);

/* Its result, negative errno included. */
long captive_call(struct captive *captive, long number, const long arguments[6]);

/* The system call that it was waiting in is restarted. */
void captive_release(struct captive *captive);

#endif
