/* What this process has of CUDA: initialisation, the gate through which its calls pass, its GPUs and contexts. */
#ifndef SIM_PROCESS_H
#define SIM_PROCESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "card.h"
#include "machine.h"
#include "references.h"

struct CUctx_st {
  int ordinal;
  int holders;
};

struct process {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  bool initialised;
  bool forked;                   /* a child of fork inherits the files, but CUDA is of no use to it */
  bool gate_closed;
  int calls;                     /* inside the gate now */
  int64_t busy_until;            /* when the last launched kernel ends, monotonic ns */
  CUprocessState state;
  bool poisoned;                 /* a restore ran out of GPU memory: no later one will work */
  bool refused;                  /* a checkpoint was refused for managed memory: no later one will work */
  int devices;                   /* GPUs the process sees, by ordinal */
  int gpu_of[SIM_MAX_GPUS];      /* ordinal to index of the machine */
  int known_gpus;                /* GPUs of the machine when the process started or was last restored */
  CUuuid known[SIM_MAX_GPUS];    /* and their UUIDs */
  struct CUctx_st primary[SIM_MAX_GPUS];
  int contexts[SIM_MAX_GPUS];    /* living contexts by ordinal */
  uint64_t allocated[SIM_MAX_GPUS]; /* bytes by ordinal */
  int managed;                   /* living managed allocations */
  struct usage *record;          /* of the card, NULL while this process uses no GPU */
  struct references references;
};

extern struct process the_process;

CUresult process_initialise(void);

/* Every call of the workload that needs CUDA stands between these two: enter waits while the process is locked.
 * After an enter that did not succeed, leave must not be called. leave hands its argument back. */
CUresult process_enter(void);
CUresult process_leave(CUresult result);

/* The same, for calls that need a current context. */
CUresult process_enter_context(CUcontext *context);

/* The calling thread's current context. */
CUresult process_current(CUcontext *context);

/* Inside the gate, or in a poll: waits until all kernels have ended. */
void process_synchronise(void);

/* Closes the gate, waits for calls and kernels: CUDA_SUCCESS, or CUDA_ERROR_NOT_READY (gate open again) after
 * timeout_ms; 0 waits without a limit. */
CUresult process_close_gate(uint32_t timeout_ms);
void process_open_gate(void);

/* Tells the card what this process uses now (contexts and allocations); with the answer of card_charge. */
CUresult process_charge(void);

int64_t monotonic_ns(void);

#endif
