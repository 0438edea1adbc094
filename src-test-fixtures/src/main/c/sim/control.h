/* How a cuCheckpointProcess* call in one process reaches another. */
#ifndef SIM_CONTROL_H
#define SIM_CONTROL_H

#include <stdint.h>

#include "faults.h"
#include "machine.h"

enum control_operation { GET_STATE, GET_THREAD, LOCK, CHECKPOINT, RESTORE, UNLOCK };

/* The content of the file state/calls/ID while a call is under way. */
struct control_call {
  uint32_t done;                 /* futex: 1 when result is there */
  uint32_t serial;               /* differs from call to call: files are used again */
  uint32_t operation;
  uint32_t timeout_ms;
  int32_t result;
  int32_t value;                 /* the state or the thread id */
  uint32_t pairs_count;
  uint64_t job_device, job_inode; /* of the job file that the caller's environment names; 0 for none */
  CUcheckpointGpuPair pairs[SIM_MAX_GPUS];
  struct fault fault;
};

/* Queued to the control thread with the low 31 bits of the id in its value. */
#define CONTROL_SIGNAL (SIGRTMIN + 13)

/* Target's side: starts the control thread; 0, or -1. */
int control_start(void);

/* Caller's side: sends the call and waits for its answer, which is in call->result; value is filled in. */
CUresult control_send(int pid, struct control_call *call);

/* Does what the call asks for, in the target. */
void checkpoint_serve(struct control_call *call);

#endif
