/* The states of a process and the way between them, in the target. The results are those measured of the driver;
 * where a case was not measured the comment says so. */
#include <string.h>
#include <unistd.h>

#include "control.h"
#include "job_file.h"
#include "memory.h"
#include "neighbour.h"
#include "notifier.h"
#include "process.h"

static const struct fault *fault;
static int fault_answer;

/* The call's `during` fault, once: false if the operation shall end here. */
static bool middle(void) {
  if (!fault->hit || fault->moment != FAULT_DURING || !fault_happens(fault)) return true;
  fault_answer = fault->answer;
  return false;
}

static CUresult lock(uint32_t timeout_ms) {
  struct process *p = &the_process;
  if (p->state != CU_PROCESS_STATE_RUNNING) return CUDA_ERROR_ILLEGAL_STATE;
  CUresult result = process_close_gate(timeout_ms);
  if (result == CUDA_SUCCESS) p->state = CU_PROCESS_STATE_LOCKED;
  return result;
}

static CUresult unlock(void) {
  struct process *p = &the_process;
  if (p->state != CU_PROCESS_STATE_LOCKED) return CUDA_ERROR_ILLEGAL_STATE;
  p->state = CU_PROCESS_STATE_RUNNING;
  process_open_gate();
  return CUDA_SUCCESS;
}

static void tell_nvml(const char *function) {
  void (*told)(void);
  void *found = neighbour("libnvidia-ml.so.1", function);
  if (found == NULL) return;
  memcpy(&told, &found, sizeof found);
  told();
}

static CUresult checkpoint(void) {
  struct process *p = &the_process;
  if (p->state != CU_PROCESS_STATE_LOCKED) return CUDA_ERROR_ILLEGAL_STATE;
  if (p->refused) return CUDA_ERROR_UNKNOWN;
  if (p->managed > 0) {
    p->refused = true;
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  notifier_unmap();
  CUresult result = memory_to_host(middle);
  if (result != CUDA_SUCCESS) {
    notifier_map();
    p->state = CU_PROCESS_STATE_FAILED;
    return fault_answer != 0 ? fault_answer : result;
  }
  result = job_file_left();
  if (result != CUDA_SUCCESS) {
    p->state = CU_PROCESS_STATE_FAILED;
    return result;
  }
  p->busy_until = 0; /* the clock may be another one after a dump and restore */
  card_leave(p->record);
  p->record = NULL;
  references_close(&p->references);
  tell_nvml("libnvmlSimRelease");
  p->state = CU_PROCESS_STATE_CHECKPOINTED;
  return CUDA_SUCCESS;
}

static int known_index(const CUuuid *uuid) {
  for (int i = 0; i < the_process.known_gpus; i++)
    if (memcmp(&the_process.known[i], uuid, sizeof *uuid) == 0) return i;
  return -1;
}

/* Where each GPU the process knows is to be found now. The pairs must name every GPU of the machine once on either
 * side, also those that the process does not use or, by CUDA_VISIBLE_DEVICES, see. */
static CUresult map_gpus(const struct control_call *call, int new_index[SIM_MAX_GPUS]) {
  const struct process *p = &the_process;
  if (call->pairs_count > 0 && machine()->version < 13000)
    return CUDA_ERROR_INVALID_VALUE; /* pairs came with 580: before, the bytes are reserved and must be zero */
  for (int i = 0; i < p->known_gpus; i++)
    new_index[i] = call->pairs_count > 0 ? -1 : machine_find(&p->known[i]);
  bool taken[SIM_MAX_GPUS] = {false};
  for (uint32_t i = 0; i < call->pairs_count; i++) {
    int from = known_index(&call->pairs[i].oldUuid);
    int to = machine_find(&call->pairs[i].newUuid);
    if (from < 0 || to < 0 || taken[to] || new_index[from] >= 0) return CUDA_ERROR_INVALID_VALUE;
    new_index[from] = to;
    taken[to] = true;
  }
  for (int i = 0; i < p->known_gpus; i++) {
    if (call->pairs_count > 0 && new_index[i] < 0) return CUDA_ERROR_INVALID_VALUE;
  }
  for (int i = 0; i < p->devices; i++) {
    /* Not measured: the machine has no such GPU and no pair leads away from it. */
    if (new_index[p->gpu_of[i]] < 0) return CUDA_ERROR_INVALID_DEVICE;
  }
  return CUDA_SUCCESS;
}

static CUresult restore(const struct control_call *call) {
  struct process *p = &the_process;
  if (p->state != CU_PROCESS_STATE_CHECKPOINTED) return CUDA_ERROR_ILLEGAL_STATE;
  if (p->poisoned) return CUDA_ERROR_OPERATING_SYSTEM;
  CUresult result = job_file_knows();
  if (result != CUDA_SUCCESS) return result;
  machine_reload();
  int new_index[SIM_MAX_GPUS], old_index[SIM_MAX_GPUS];
  result = map_gpus(call, new_index);
  if (result != CUDA_SUCCESS) return result;
  memcpy(old_index, p->gpu_of, sizeof old_index);
  for (int i = 0; i < p->devices; i++) p->gpu_of[i] = new_index[p->gpu_of[i]];
  references_open(&p->references, machine()->gpus);
  result = process_charge();
  if (result != CUDA_SUCCESS) {
    p->poisoned = result == CUDA_ERROR_OUT_OF_MEMORY; /* NVIDIA/cuda-checkpoint issue 44 */
    references_close(&p->references);
    memcpy(p->gpu_of, old_index, sizeof old_index);
    return result;
  }
  result = memory_to_gpu(middle);
  if (result == CUDA_SUCCESS) result = job_file_returned();
  if (result != CUDA_SUCCESS) {
    p->state = CU_PROCESS_STATE_FAILED;
    return fault_answer != 0 ? fault_answer : result;
  }
  notifier_map();
  tell_nvml("libnvmlSimReturn");
  p->known_gpus = machine()->gpus;
  memcpy(p->known, machine()->uuid, sizeof p->known);
  p->state = CU_PROCESS_STATE_LOCKED;
  return CUDA_SUCCESS;
}

static CUresult serve(struct control_call *call) {
  bool copies = call->operation == CHECKPOINT || call->operation == RESTORE;
  bool moves = call->operation != GET_STATE && call->operation != GET_THREAD;
  if (!copies && !middle()) return fault_answer;
  if (moves && job_file_same(call) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
  switch (call->operation) {
    case GET_STATE: call->value = (int)the_process.state; return CUDA_SUCCESS;
    case GET_THREAD: call->value = gettid(); return CUDA_SUCCESS;
    case LOCK: return lock(call->timeout_ms);
    case CHECKPOINT: return checkpoint();
    case RESTORE: return restore(call);
    case UNLOCK: return unlock();
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

void checkpoint_serve(struct control_call *call) {
  fault = &call->fault;
  fault_answer = 0;
  call->result = serve(call);
}
