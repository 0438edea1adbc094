/* The page of the GPU in which the driver looks for errors: it is mapped while the process is on its GPU. Calls that
 * ask whether work is done read it, and the lock does not keep these calls out: during a checkpoint, and until the
 * restore is over, they end the process by SIGSEGV, as the driver's do. */
#ifndef SIM_NOTIFIER_H
#define SIM_NOTIFIER_H

#include <stdbool.h>

bool notifier_map(void);
void notifier_unmap(void);
bool notifier_is_mapped(void);

/* Reads it. */
void notifier_look(void);

#endif
