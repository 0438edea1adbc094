/* The page that a controller and its target share: a file mapped by both, which CRIU dumps and restores, and which
 * needs no descriptor. The controller writes commands and the phase there; the target's threads write what they see. */
#ifndef MEASURE_BOARD_H
#define MEASURE_BOARD_H

#include <stdatomic.h>
#include <stdint.h>

enum phase { RUNNING, LOCKING, LOCKED, CHECKPOINTING, CHECKPOINTED, RESTORING, RESTORED, UNLOCKING, PHASES };

#define PHASE_NAMES                                                                                             \
  {"RUNNING", "locking", "LOCKED", "checkpointing", "CHECKPOINTED", "restoring", "LOCKED again", "unlocking"}

enum { WORKERS = 4, SLOTS = 256, IDLERS = 16, TEXT = 256 };

/* A SIGSEGV or SIGBUS of a worker. */
struct fault {
  int signal, code, write, phase;
  uint64_t address;
};

/* A word that was not what the worker had written there. */
struct mismatch {
  int phase;
  uint64_t address, expected, found;
};

struct worker {
  char name[16];
  _Atomic int tid;
  uint64_t at, length; /* the memory it works on, 0 if that changes all the time */
  _Atomic uint64_t passes[PHASES], faults[PHASES], wrong;
  struct fault first_fault;
  struct mismatch first_wrong;
  char note[64];
};

/* A mapping that the mapping worker holds at this moment. */
struct slot {
  _Atomic uint64_t at, length;
};

struct board {
  _Atomic uint32_t asked, answered;
  char command[TEXT], answer[TEXT];
  _Atomic int phase;
  int wait_in_handler; /* a worker that faults waits for RUNNING and tries again; else the signal kills the process */
  int idlers;
  int idle_tid[IDLERS];
  uint64_t decoy, decoy_length; /* ordinary private memory of the target, touched */
  struct worker workers[WORKERS];
  struct slot slots[SLOTS];
};

#endif
