/* Faults on demand. */
#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "machine.h"

enum fault_moment { FAULT_BEFORE, FAULT_DURING, FAULT_AFTER };

/* Which version of the file a fault was read from; all zero for none. */
struct version {
  uint64_t inode;
  int64_t seconds, nanoseconds, size;
};

struct fault {
  bool hit;
  enum fault_moment moment;
  bool kills;
  bool answers;
  int answer;
  int64_t hang_ms;         /* 0: none; -1: until the faults change */
  int pid;
  struct version version;  /* of the file when the fault was read */
};

/* Counts this call of `function` on `pid` and says what shall go wrong with it. */
struct fault fault_of(const char *function, int pid);

/* The fault's moment has come: hangs, kills. Returns true if the call shall answer fault->answer now. */
bool fault_happens(const struct fault *fault);

/* Runs `effect` under the faults of a function; returns from the function in which this stands. */
#define WITH_FAULTS_OF(function, pid, effect)                                            \
  do {                                                                                   \
    struct fault fault_ = fault_of((function), (pid));                                   \
    if (fault_.hit && fault_.moment != FAULT_AFTER && fault_happens(&fault_)) return fault_.answer; \
    int result_ = (effect);                                                              \
    if (fault_.hit && fault_.moment == FAULT_AFTER && fault_happens(&fault_)) return fault_.answer; \
    return result_;                                                                      \
  } while (0)

/* The same for the function in which this stands. */
#define WITH_FAULTS(pid, effect) WITH_FAULTS_OF(__func__, pid, effect)

#endif
