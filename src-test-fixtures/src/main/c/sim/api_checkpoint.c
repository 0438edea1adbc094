/* The checkpoint functions as a controller calls them. None needs cuInit in the caller. Not in the old driver. */
#include <stddef.h>
#include <string.h>

#include "control.h"
#include "job_file.h"

static bool all_zero(const void *bytes, size_t size) {
  const unsigned char *b = bytes;
  for (size_t i = 0; i < size; i++)
    if (b[i] != 0) return false;
  return true;
}

/* Sends the call under the faults of `function`; one for the target's inside travels with it. */
static CUresult send(const char *function, int pid, struct control_call *call) {
  struct fault fault = fault_of(function, pid);
  if (fault.hit && fault.moment == FAULT_BEFORE && fault_happens(&fault)) return fault.answer;
  call->fault = fault;
  job_file_name(call);
  CUresult result = control_send(pid, call);
  if (fault.hit && fault.moment == FAULT_AFTER && fault_happens(&fault)) return fault.answer;
  return result;
}

EXPORT CUresult cuCheckpointProcessGetState(int pid, CUprocessState *state) {
  if (state == NULL) return CUDA_ERROR_INVALID_VALUE;
  struct control_call call = {.operation = GET_STATE};
  CUresult result = send(__func__, pid, &call);
  if (result == CUDA_SUCCESS) *state = (CUprocessState)call.value;
  return result;
}

EXPORT CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *tid) {
  if (tid == NULL) return CUDA_ERROR_INVALID_VALUE;
  struct control_call call = {.operation = GET_THREAD};
  CUresult result = send(__func__, pid, &call);
  if (result == CUDA_SUCCESS) *tid = call.value;
  return result;
}

EXPORT CUresult cuCheckpointProcessLock(int pid, const CUcheckpointLockArgs *args) {
  struct control_call call = {.operation = LOCK};
  if (args != NULL) {
    if (args->reserved0 != 0 || !all_zero(args->reserved1, sizeof args->reserved1))
      return CUDA_ERROR_INVALID_VALUE;
    call.timeout_ms = args->timeoutMs;
  }
  return send(__func__, pid, &call);
}

EXPORT CUresult cuCheckpointProcessCheckpoint(int pid, const CUcheckpointCheckpointArgs *args) {
  if (args != NULL && !all_zero(args, sizeof *args)) return CUDA_ERROR_INVALID_VALUE;
  struct control_call call = {.operation = CHECKPOINT};
  return send(__func__, pid, &call);
}

EXPORT CUresult cuCheckpointProcessRestore(int pid, const CUcheckpointRestoreArgs *args) {
  struct control_call call = {.operation = RESTORE};
  if (args != NULL) {
    bool pairs = args->gpuPairsCount > 0;
    if (pairs && (args->gpuPairs == NULL || args->gpuPairsCount > SIM_MAX_GPUS))
      return CUDA_ERROR_INVALID_VALUE;
    if (!all_zero(args->reserved, sizeof args->reserved)) return CUDA_ERROR_INVALID_VALUE;
    call.pairs_count = args->gpuPairsCount;
    if (pairs) memcpy(call.pairs, args->gpuPairs, args->gpuPairsCount * sizeof call.pairs[0]);
  }
  return send(__func__, pid, &call);
}

EXPORT CUresult cuCheckpointProcessUnlock(int pid, const CUcheckpointUnlockArgs *args) {
  if (args != NULL && !all_zero(args, sizeof *args)) return CUDA_ERROR_INVALID_VALUE;
  struct control_call call = {.operation = UNLOCK};
  return send(__func__, pid, &call);
}
