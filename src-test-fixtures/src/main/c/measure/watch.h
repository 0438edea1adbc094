/* Watches a target from outside while a verb is under way: mappings that come and go, the order in which the pages of
 * large new ones appear or vanish, and what its threads do. */
#ifndef MEASURE_WATCH_H
#define MEASURE_WATCH_H

#include <stdint.h>

struct watch;

/* Samples mappings every `period` seconds. `area`, if not 0, is the start of a mapping to follow from the beginning. */
struct watch *watch_start(int pid, double period, uint64_t area);

/* Ends it and prints what was seen. */
void watch_stop(struct watch *watch);

#endif
