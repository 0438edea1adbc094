/* What every measuring program does: starts targets, asks them, calls the driver on them and tells how long it took. */
#ifndef MEASURE_HARNESS_H
#define MEASURE_HARNESS_H

#include <stddef.h>

#include "board.h"
#include "calls.h"

enum verb { LOCK, CHECKPOINT, RESTORE, UNLOCK };

struct target {
  int pid;
  int ended, status; /* filled when it was found dead */
  char directory[512];
  struct board *board;
};

struct outcome {
  int result;
  double seconds;
};

/* Seconds of a clock that only goes forward. */
double seconds(void);
void sleep_for(double seconds);

/* "8g", "512m", "64k", "4096" as bytes. */
size_t bytes_of(const char *text);

/* Line buffering, a subreaper, the driver loaded: once, at the start of main. */
void harness_start(void);

/* Else a target dies with this process. CRIU restores that too, and it would then die with CRIU. */
extern int targets_outlive_us;

/* Starts the program `target` that lies beside this one, in a session of its own, with a directory of its own below
 * $MEASURE_WORK or /tmp. `options` are separated by spaces. False with a message if it is not ready in 60 s. */
int target_start(struct target *target, const char *options);

/* Its answer, or NULL if it died or did not answer in time. */
const char *target_ask(struct target *target, const char *command, double limit);

/* False once it has died; `status` is what wait said. */
int target_lives(struct target *target);
const char *target_end(const struct target *target); /* how it died, in words */

/* Kills and reaps it, and removes its directory. */
void target_stop(struct target *target);

/* One call of the driver, timed. The board's phase is changed before and after. */
struct outcome act(struct target *target, enum verb verb, unsigned timeout_ms);
extern const char *const verb_names[];

/* The four verbs; false with a message at the first that fails. */
int suspend(struct target *target, struct outcome *checkpoint);
int resume(struct target *target, struct outcome *restore);

const char *state_name(int pid);

/* NVML's view from this process: memory in use on GPU 0, and by one process (-1 if it is not listed). */
long long gpu_used(void);
long long gpu_free(void);
long long gpu_used_by(int pid);

/* Bytes that the machine can still give. */
size_t host_available(void);

#endif
