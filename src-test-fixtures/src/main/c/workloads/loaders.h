/* Children that are forked after CUDA was initialised, as PyTorch's data loaders are: they have the device files and
 * mappings of their parent, and can do nothing with them. They die with the thread that forked them.
 *
 *   loaders N         forks N that count the messages that they get through a pipe, and answer each with the number
 *                     through another; replies their pids. From then on a thread sends without end.
 *   traffic           replies how many messages were answered, a blank, and how many of the answers were wrong: one
 *                     that is lost or comes twice makes wrong all that follow
 *   child KIND        forks one that only waits, and replies its pid:
 *     plain             nothing more
 *     nvml              that uses NVML itself
 *     vfork             with its parent's memory, as after vfork
 *     files             with its parent's descriptors
 *     seccomp           that may not duplicate descriptors
 *     user              that is another user, 54321 */
#ifndef WORKLOAD_LOADERS_H
#define WORKLOAD_LOADERS_H

#include <stdbool.h>
#include <sys/types.h>

/* Forks one that only waits. Returns its pid when it does so; -1 if it did not begin. */
pid_t fork_waiting(void);

/* False when the request names nothing of the kind. */
bool loaders_answer(const char *request, char *reply);

#endif
