#include "polls.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda.h"
#include "kernels.h"
#include "udp.h"

enum { STREAM_NON_BLOCKING = 1, EVENT_BLOCKING_SYNC = 1 };

static struct {
  CUresult (*stream_create)(CUstream *stream, unsigned int flags);
  CUresult (*stream_query)(CUstream stream);
  CUresult (*stream_synchronize)(CUstream stream);
  CUresult (*event_create)(CUevent *event, unsigned int flags);
  CUresult (*event_record)(CUevent event, CUstream stream);
  CUresult (*event_query)(CUevent event);
  CUresult (*event_synchronize)(CUevent event);
  CUresult (*event_elapsed)(float *milliseconds, CUevent start, CUevent end);
  CUresult (*module_unload)(CUmodule module);
  CUresult (*alloc_async)(CUdeviceptr *pointer, size_t size, CUstream stream); /* may be missing */
  CUresult (*free_async)(CUdeviceptr pointer, CUstream stream);
} api;

static CUfunction spin;
static CUcontext context;
static _Atomic uint64_t polls, errors;
static _Atomic int polling;

struct work {
  CUstream stream;
  CUevent start, end;
};

static void find(void *library, const char *name, void *function) {
  void *found = dlsym(library, name);
  if (found == NULL) {
    fprintf(stderr, "libcuda.so.1 has no %s\n", name);
    exit(3);
  }
  memcpy(function, &found, sizeof found);
}

static void count(CUresult result) {
  atomic_fetch_add(&polls, 1);
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) return;
  if (atomic_fetch_add(&errors, 1) == 0) fprintf(stderr, "a poll answered %d\n", result);
}

/* Launches something that takes a while, and waits for it in the way of most frameworks. */
static void launch_and_query(struct work *work) {
  uint64_t nanoseconds = 50000;
  void *arguments[] = {&nanoseconds};
  CUresult result = cuda.launch(spin, 1, 1, 1, 1, 1, 1, 0, work->stream, arguments, NULL);
  count(result);
  if (result == CUDA_SUCCESS) count(api.event_record(work->end, work->stream));
  do count(result = api.stream_query(work->stream));
  while (result == CUDA_ERROR_NOT_READY);
}

/* Long enough that a lock and a checkpoint come within it: the next call is then made during the checkpoint. */
static void pause_between_calls(void) { usleep(100000); }

static void load_and_unload(void) {
  CUmodule module;
  CUresult result = cuda.module_load(&module, ptx);
  count(result);
  pause_between_calls();
  if (result == CUDA_SUCCESS) count(api.module_unload(module));
}

static void allocate_in_order(CUstream stream) {
  CUdeviceptr first, second;
  if (api.alloc_async == NULL || api.free_async == NULL) {
    count(api.stream_query(stream));
    return;
  }
  CUresult result = api.alloc_async(&first, 1 << 20, stream);
  count(result);
  pause_between_calls();
  if (result != CUDA_SUCCESS) return;
  count(result = api.alloc_async(&second, 1 << 20, stream));
  if (result == CUDA_SUCCESS) count(api.free_async(second, stream));
  count(api.free_async(first, stream));
}

static void poll_once(int kind, struct work *work) {
  float milliseconds;
  size_t free_bytes, total;
  switch (kind % POLL_KINDS) {
    case 0: count(api.stream_query(work->stream)); break;
    case 1: count(api.event_query(work->end)); break;
    case 2: count(cuda.synchronize()); break;
    case 3: count(api.stream_synchronize(work->stream)); break;
    case 4: count(api.event_synchronize(work->end)); break;
    case 5: count(api.event_elapsed(&milliseconds, work->start, work->end)); break;
    case 6: count(cuda.memory_info(&free_bytes, &total)); break;
    case 7: launch_and_query(work); break;
    case 8: load_and_unload(); break;
    default: allocate_in_order(work->stream); break;
  }
}

static void *poll_for_ever(void *kind) {
  struct work work;
  int flags = (intptr_t)kind % POLL_KINDS == 4 ? EVENT_BLOCKING_SYNC : 0;
  cuda_must(cuda.set_current(context), "cuCtxSetCurrent");
  cuda_must(api.stream_create(&work.stream, STREAM_NON_BLOCKING), "cuStreamCreate");
  cuda_must(api.event_create(&work.start, flags), "cuEventCreate");
  cuda_must(api.event_create(&work.end, flags), "cuEventCreate");
  cuda_must(api.event_record(work.start, work.stream), "cuEventRecord");
  cuda_must(api.event_record(work.end, work.stream), "cuEventRecord");
  cuda_must(api.stream_synchronize(work.stream), "cuStreamSynchronize");
  atomic_fetch_add(&polling, 1);
  for (unsigned i = 0;; i++) {
    poll_once((int)(intptr_t)kind, &work);
    if (i % 64 == 0) usleep(200);
  }
  return NULL;
}

void polls_start(int threads) {
  if (threads <= 0) return;
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  find(library, "cuStreamCreate", &api.stream_create);
  find(library, "cuStreamQuery", &api.stream_query);
  find(library, "cuStreamSynchronize", &api.stream_synchronize);
  find(library, "cuEventCreate", &api.event_create);
  find(library, "cuEventRecord", &api.event_record);
  find(library, "cuEventQuery", &api.event_query);
  find(library, "cuEventSynchronize", &api.event_synchronize);
  find(library, "cuEventElapsedTime", &api.event_elapsed);
  find(library, "cuModuleUnload", &api.module_unload);
  *(void **)&api.alloc_async = dlsym(library, "cuMemAllocAsync");
  *(void **)&api.free_async = dlsym(library, "cuMemFreeAsync");
  CUmodule module;
  CUresult (*current)(CUcontext *);
  find(library, "cuCtxGetCurrent", &current);
  cuda_must(current(&context), "cuCtxGetCurrent");
  cuda_must(cuda.module_load(&module, ptx), "cuModuleLoadData");
  cuda_must(cuda.module_function(&spin, module, "spin"), "cuModuleGetFunction spin");
  for (intptr_t kind = 0; kind < threads; kind++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, poll_for_ever, (void *)kind) != 0) exit(3);
  }
  /* A lock that came before would keep out the calls with which a thread begins, and it would never poll. */
  while (atomic_load(&polling) < threads) usleep(1000);
}

int polls_answer(const char *request, char *reply) {
  if (strcmp(request, "polls") != 0) return 0;
  snprintf(reply, ANSWER_SIZE, "%llu %llu", (unsigned long long)polls, (unsigned long long)errors);
  return 1;
}
