/* CRIU as a command, on a target. $MEASURE_CRIU or the `criu` on PATH. */
#ifndef MEASURE_CRIU_H
#define MEASURE_CRIU_H

#include "harness.h"

/* Dumps the target into the directory (made again) and waits until its pid is free. False if CRIU refused: its error
 * lines are printed, and the target lives. */
int criu_dump(struct target *target, const char *directory, double *took);

/* Restores it under the same pid, as a child of ours. */
int criu_restore(struct target *target, const char *directory, double *took);

int criu_there(void);

#endif
