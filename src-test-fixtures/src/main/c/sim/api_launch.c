/* The driver API for modules, streams and launches. Kernels are known by name; nothing is compiled.
 *
 * Time on the GPU is reckoned, not spent: a launch takes effect at once, and `busy_until` says when the GPU would be
 * done. Everything that can look at a result waits until then, so the delay is not visible. All streams of a process are
 * one queue. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faults.h"
#include "memory.h"
#include "notifier.h"
#include "process.h"
#include "slot.h"

struct CUfunc_st {
  const char *name;
  CUresult (*run)(void **arguments, int64_t *nanoseconds);
};

struct CUmod_st {
  char *image;
};

struct CUstream_st {
  int ordinal;
};

struct CUevent_st {
  int64_t done_at; /* monotonic ns */
};

/* increment(u32 *value): adds one. */
static CUresult increment(void **arguments, int64_t *nanoseconds) {
  (void)nanoseconds;
  CUdeviceptr pointer;
  uint32_t value;
  memcpy(&pointer, arguments[0], sizeof pointer);
  if (memory_read(&value, pointer, sizeof value) != CUDA_SUCCESS) return CUDA_ERROR_ILLEGAL_ADDRESS;
  value++;
  return memory_write(pointer, &value, sizeof value);
}

/* spin(u64 nanoseconds): runs that long. */
static CUresult spin(void **arguments, int64_t *nanoseconds) {
  memcpy(nanoseconds, arguments[0], sizeof *nanoseconds);
  return CUDA_SUCCESS;
}

static struct CUfunc_st kernels[] = {{"increment", increment}, {"spin", spin}};

static bool is_usable(void) {
  struct process *p = &the_process;
  pthread_mutex_lock(&p->mutex);
  bool usable = p->initialised && !p->forked;
  pthread_mutex_unlock(&p->mutex);
  return usable;
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  CUcontext context;
  CUresult result = process_enter_context(&context);
  if (result != CUDA_SUCCESS) return result;
  if (module == NULL || image == NULL) return process_leave(CUDA_ERROR_INVALID_VALUE);
  if (strstr(image, ".version") == NULL) return process_leave(CUDA_ERROR_INVALID_IMAGE);
  *module = malloc(sizeof **module);
  if (*module != NULL) (*module)->image = strdup(image);
  return process_leave(*module != NULL && (*module)->image != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

/* Before it waits at the lock it waits for the GPU, as a poll does: called during a checkpoint it ends the process. */
static CUresult cuModuleUnload_implementation(CUmodule module) {
  if (is_usable()) notifier_look();
  CUresult result = process_enter();
  if (result != CUDA_SUCCESS) return result;
  if (module == NULL) return process_leave(CUDA_ERROR_INVALID_HANDLE);
  free(module->image);
  free(module);
  return process_leave(CUDA_SUCCESS);
}

EXPORT_BY_SLOT(cuModuleUnload, (CUmodule module), module)

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  CUresult result = process_enter();
  if (result != CUDA_SUCCESS) return result;
  if (function == NULL || name == NULL) return process_leave(CUDA_ERROR_INVALID_VALUE);
  if (module == NULL) return process_leave(CUDA_ERROR_INVALID_HANDLE);
  for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
    if (strcmp(kernels[i].name, name) != 0 || strstr(module->image, name) == NULL) continue;
    *function = &kernels[i];
    return process_leave(CUDA_SUCCESS);
  }
  return process_leave(CUDA_ERROR_NOT_FOUND);
}

static CUresult launch(CUfunction function, void **arguments) {
  struct process *p = &the_process;
  CUcontext context;
  CUresult result = process_enter_context(&context);
  if (result != CUDA_SUCCESS) return result;
  if (function == NULL) return process_leave(CUDA_ERROR_INVALID_HANDLE);
  if (arguments == NULL) return process_leave(CUDA_ERROR_INVALID_VALUE);
  int64_t nanoseconds = 0;
  result = function->run(arguments, &nanoseconds);
  pthread_mutex_lock(&p->mutex);
  int64_t now = monotonic_ns();
  if (nanoseconds > 0) p->busy_until = (p->busy_until > now ? p->busy_until : now) + nanoseconds;
  pthread_mutex_unlock(&p->mutex);
  return process_leave(result);
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                               unsigned int block_x, unsigned int block_y, unsigned int block_z,
                               unsigned int shared_bytes, CUstream stream, void **arguments, void **extra) {
  (void)shared_bytes, (void)stream, (void)extra;
  bool empty = grid_x == 0 || grid_y == 0 || grid_z == 0 || block_x == 0 || block_y == 0 || block_z == 0;
  WITH_FAULTS(getpid(), empty ? CUDA_ERROR_INVALID_VALUE : launch(function, arguments));
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
  (void)flags;
  CUcontext context;
  CUresult result = process_enter_context(&context);
  if (result != CUDA_SUCCESS) return result;
  if (stream == NULL) return process_leave(CUDA_ERROR_INVALID_VALUE);
  *stream = malloc(sizeof **stream);
  if (*stream == NULL) return process_leave(CUDA_ERROR_OUT_OF_MEMORY);
  (*stream)->ordinal = context->ordinal;
  return process_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  CUresult result = process_enter();
  if (result != CUDA_SUCCESS) return result;
  if (stream == NULL) return process_leave(CUDA_ERROR_INVALID_HANDLE);
  free(stream);
  return process_leave(CUDA_SUCCESS);
}

/* Calls that ask whether work is done: the lock does not keep them out. */
static CUresult enter_poll(void) {
  CUcontext context;
  if (!is_usable()) return CUDA_ERROR_NOT_INITIALIZED;
  if (process_current(&context) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_CONTEXT;
  notifier_look();
  return CUDA_SUCCESS;
}

static CUresult synchronise(void) {
  CUresult result = enter_poll();
  if (result != CUDA_SUCCESS) return result;
  process_synchronise();
  notifier_look();
  return CUDA_SUCCESS;
}

static CUresult query(int64_t until) {
  CUresult result = enter_poll();
  if (result != CUDA_SUCCESS) return result;
  return until > monotonic_ns() ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static int64_t busy_until(void) {
  pthread_mutex_lock(&the_process.mutex);
  int64_t until = the_process.busy_until;
  pthread_mutex_unlock(&the_process.mutex);
  return until;
}

static CUresult cuCtxSynchronize_implementation(void) {
  WITH_FAULTS_OF("cuCtxSynchronize", getpid(), synchronise());
}

EXPORT_BY_SLOT(cuCtxSynchronize, (void))

static CUresult cuStreamSynchronize_implementation(CUstream stream) {
  (void)stream;
  WITH_FAULTS_OF("cuStreamSynchronize", getpid(), synchronise());
}

EXPORT_BY_SLOT(cuStreamSynchronize, (CUstream stream), stream)

static CUresult cuStreamQuery_implementation(CUstream stream) {
  (void)stream;
  return query(busy_until());
}

EXPORT_BY_SLOT(cuStreamQuery, (CUstream stream), stream)

EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags) {
  (void)flags;
  CUcontext context;
  CUresult result = process_enter_context(&context);
  if (result != CUDA_SUCCESS) return result;
  if (event == NULL) return process_leave(CUDA_ERROR_INVALID_VALUE);
  *event = calloc(1, sizeof **event);
  return process_leave(*event == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
}

EXPORT CUresult cuEventDestroy_v2(CUevent event) {
  CUresult result = process_enter();
  if (result != CUDA_SUCCESS) return result;
  if (event == NULL) return process_leave(CUDA_ERROR_INVALID_HANDLE);
  free(event);
  return process_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  (void)stream;
  CUcontext context;
  CUresult result = process_enter_context(&context);
  if (result != CUDA_SUCCESS) return result;
  if (event == NULL) return process_leave(CUDA_ERROR_INVALID_HANDLE);
  int64_t until = busy_until(), now = monotonic_ns();
  event->done_at = until > now ? until : now;
  return process_leave(CUDA_SUCCESS);
}

static CUresult cuEventQuery_implementation(CUevent event) {
  return event == NULL ? CUDA_ERROR_INVALID_HANDLE : query(event->done_at);
}

EXPORT_BY_SLOT(cuEventQuery, (CUevent event), event)

static CUresult cuEventSynchronize_implementation(CUevent event) {
  return event == NULL ? CUDA_ERROR_INVALID_HANDLE : synchronise();
}

EXPORT_BY_SLOT(cuEventSynchronize, (CUevent event), event)

static CUresult cuEventElapsedTime_implementation(float *milliseconds, CUevent start, CUevent end) {
  if (start == NULL || end == NULL) return CUDA_ERROR_INVALID_HANDLE;
  CUresult result = enter_poll();
  if (result == CUDA_SUCCESS) *milliseconds = (float)(end->done_at - start->done_at) / 1e6f;
  return result;
}

EXPORT_BY_SLOT(cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end), milliseconds, start, end)
