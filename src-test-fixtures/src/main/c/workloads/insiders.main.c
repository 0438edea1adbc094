/* Programs whose threads are inside calls of the driver at nearly any moment. --subject is
 *   churn   eight threads, each of which makes and destroys something without a pause: memory, modules, streams, events,
 *           graphs, memory in stream order, page-locked memory, cuFFT plans
 *   fft     as NVIDIA's sample convolutionFFT2D: plans a transform, there and back, checks it, destroys the plans
 *   sort    as NVIDIA's sample sortingNetworks: sorts by many small launches, synchronizes, checks the order
 *   alternate, long, waiting, cancel, fork, fiber   threads that poll, see interrupted.h
 * What a driver lacks (the simulated one: graphs, order of streams, kernels that it does not know) is left out. It answers
 *   polls   "COUNT ERRORS": rounds that were made, and calls and checks that failed
 *   rounds  rounds of each thread; "-" for one that cannot run here
 *   failed  the first failure, or "nothing"
 *   gpu, memory see cuda.h */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda.h"
#include "interrupted.h"
#include "kernels.h"
#include "udp.h"

#define MIB (1u << 20)
#define SIDE 256 /* of the transform */
#define WORDS 4096 /* to sort */

typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

enum { R2C = 0x2a, C2R = 0x2c, NON_BLOCKING = 1, RELAXED = 2, MOST = 8 };

static const char sort_ptx[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry step(.param .u64 words, .param .u32 distance, .param .u32 block)\n{\n"
    "  .reg .pred %p<4>;\n  .reg .u32 %r<12>;\n  .reg .u64 %rd<8>;\n"
    "  ld.param.u64 %rd1, [words];\n"
    "  cvta.to.global.u64 %rd1, %rd1;\n"
    "  ld.param.u32 %r1, [distance];\n"
    "  ld.param.u32 %r2, [block];\n"
    "  mov.u32 %r3, %ctaid.x;\n"
    "  mov.u32 %r4, %ntid.x;\n"
    "  mov.u32 %r5, %tid.x;\n"
    "  mad.lo.u32 %r6, %r3, %r4, %r5;\n"
    "  xor.b32 %r7, %r6, %r1;\n"
    "  setp.le.u32 %p1, %r7, %r6;\n"
    "  @%p1 bra done;\n"
    "  mul.wide.u32 %rd2, %r6, 4;\n"
    "  add.u64 %rd3, %rd1, %rd2;\n"
    "  mul.wide.u32 %rd4, %r7, 4;\n"
    "  add.u64 %rd5, %rd1, %rd4;\n"
    "  ld.global.u32 %r8, [%rd3];\n"
    "  ld.global.u32 %r9, [%rd5];\n"
    "  and.b32 %r10, %r6, %r2;\n"
    "  setp.ne.u32 %p2, %r10, 0;\n"
    "  setp.gt.u32 %p3, %r8, %r9;\n"
    "  xor.pred %p3, %p3, %p2;\n"
    "  @!%p3 bra done;\n"
    "  st.global.u32 [%rd3], %r9;\n"
    "  st.global.u32 [%rd5], %r8;\n"
    "done:\n  ret;\n}\n";

static struct {
  CUresult (*module_unload)(CUmodule);
  CUresult (*stream_create)(CUstream *, unsigned);
  CUresult (*stream_destroy)(CUstream);
  CUresult (*stream_query)(CUstream);
  CUresult (*event_create)(CUevent *, unsigned);
  CUresult (*event_destroy)(CUevent);
  CUresult (*event_record)(CUevent, CUstream);
  CUresult (*event_query)(CUevent);
  /* not of the simulated driver */
  CUresult (*capture)(CUstream, int);
  CUresult (*end_capture)(CUstream, CUgraph *);
  CUresult (*instantiate)(CUgraphExec *, CUgraph, unsigned long long);
  CUresult (*graph_launch)(CUgraphExec, CUstream);
  CUresult (*exec_destroy)(CUgraphExec);
  CUresult (*graph_destroy)(CUgraph);
  CUresult (*alloc_async)(CUdeviceptr *, size_t, CUstream);
  CUresult (*free_async)(CUdeviceptr, CUstream);
  CUresult (*host_alloc)(void **, size_t, unsigned);
  CUresult (*host_free)(void *);
  int (*plan)(int *, int, int, int);
  int (*forward)(int, void *, void *);
  int (*backward)(int, void *, void *);
  int (*plan_destroy)(int);
} api;

static CUfunction spin;
static CUcontext context;
static _Atomic uint64_t rounds[MOST], failures;
static char first_failure[200] = "nothing";
static int threads;
static bool cannot[MOST];

static void fail(const char *what, int result) {
  if (atomic_fetch_add(&failures, 1) == 0) snprintf(first_failure, sizeof first_failure, "%s: %d", what, result);
}

/* True on success. */
static bool ok(CUresult result, const char *what) {
  if (result == CUDA_SUCCESS) return true;
  fail(what, result);
  return false;
}

#define TRY(call) ok(call, #call)

static void work(CUstream stream) {
  uint64_t nanoseconds = 40000;
  void *arguments[] = {&nanoseconds};
  TRY(cuda.launch(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

static bool memory(void) {
  CUdeviceptr some;
  static uint64_t there = 0x1234567887654321u;
  uint64_t back = 0;
  if (!TRY(cuda.alloc(&some, 8 * MIB))) return true;
  work(NULL);
  TRY(cuda.to_device(some, &there, sizeof there));
  TRY(cuda.to_host(&back, some, sizeof back));
  if (back != there) fail("memory differs", 0);
  TRY(cuda.free(some));
  return true;
}

static bool modules(void) {
  CUmodule module;
  CUfunction function;
  uint64_t nanoseconds = 40000;
  void *arguments[] = {&nanoseconds};
  if (!TRY(cuda.module_load(&module, ptx))) return true;
  if (TRY(cuda.module_function(&function, module, "spin")))
    TRY(cuda.launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
  TRY(api.module_unload(module));
  return true;
}

static bool streams(void) {
  CUstream stream;
  if (!TRY(api.stream_create(&stream, NON_BLOCKING))) return true;
  work(stream);
  TRY(api.stream_destroy(stream));
  return true;
}

static bool events(void) {
  CUevent event;
  CUresult result;
  if (!TRY(api.event_create(&event, 0))) return true;
  work(NULL);
  TRY(api.event_record(event, NULL));
  while ((result = api.event_query(event)) == CUDA_ERROR_NOT_READY) continue;
  ok(result, "cuEventQuery");
  TRY(api.event_destroy(event));
  return true;
}

static bool graphs(void) {
  CUstream stream;
  CUgraph graph;
  CUgraphExec exec;
  if (api.capture == NULL || api.end_capture == NULL || api.instantiate == NULL) return false;
  if (!TRY(api.stream_create(&stream, NON_BLOCKING))) return true;
  if (TRY(api.capture(stream, RELAXED))) {
    work(stream);
    if (TRY(api.end_capture(stream, &graph))) {
      if (TRY(api.instantiate(&exec, graph, 0))) {
        TRY(api.graph_launch(exec, stream));
        TRY(api.exec_destroy(exec));
      }
      TRY(api.graph_destroy(graph));
    }
  }
  TRY(api.stream_destroy(stream));
  return true;
}

static bool in_order(void) {
  CUdeviceptr some, other;
  if (api.alloc_async == NULL || api.free_async == NULL) return false;
  if (!TRY(api.alloc_async(&some, 2 * MIB, NULL))) return true;
  work(NULL);
  if (TRY(api.alloc_async(&other, MIB, NULL))) TRY(api.free_async(other, NULL));
  TRY(api.free_async(some, NULL));
  return true;
}

static bool page_locked(void) {
  void *host;
  CUdeviceptr some;
  if (api.host_alloc == NULL || api.host_free == NULL) return false;
  if (!TRY(api.host_alloc(&host, MIB, 0))) return true;
  if (TRY(cuda.alloc(&some, MIB))) {
    TRY(cuda.to_device(some, host, MIB));
    TRY(cuda.free(some));
  }
  TRY(api.host_free(host));
  return true;
}

static bool plans(void) {
  int plan;
  if (api.plan == NULL) return false;
  if (!ok(api.plan(&plan, SIDE, SIDE, R2C), "cufftPlan2d")) return true;
  work(NULL);
  ok(api.plan_destroy(plan), "cufftDestroy");
  return true;
}

static bool transform(void) {
  static float there[SIDE * SIDE], back[SIDE * SIDE];
  static unsigned seed;
  CUdeviceptr real, complex;
  int forward, backward;
  if (api.plan == NULL) return false;
  seed++;
  for (int i = 0; i < SIDE * SIDE; i++) there[i] = (float)((i * 2654435761u + seed) >> 20) / 4096;
  if (!TRY(cuda.alloc(&real, sizeof there)) || !TRY(cuda.alloc(&complex, sizeof there + SIDE * 16))) return true;
  if (ok(api.plan(&forward, SIDE, SIDE, R2C), "cufftPlan2d") && ok(api.plan(&backward, SIDE, SIDE, C2R), "cufftPlan2d")) {
    TRY(cuda.to_device(real, there, sizeof there));
    ok(api.forward(forward, (void *)real, (void *)complex), "cufftExecR2C");
    ok(api.backward(backward, (void *)complex, (void *)real), "cufftExecC2R");
    TRY(cuda.synchronize());
    TRY(cuda.to_host(back, real, sizeof back));
    for (int i = 0; i < SIDE * SIDE; i++) {
      float difference = back[i] / (SIDE * SIDE) - there[i];
      if (difference > 1e-3f || difference < -1e-3f) {
        fail("the transform is wrong at", i);
        break;
      }
    }
    ok(api.plan_destroy(forward), "cufftDestroy");
    ok(api.plan_destroy(backward), "cufftDestroy");
  }
  TRY(cuda.free(real));
  TRY(cuda.free(complex));
  return true;
}

static bool sort(void) {
  static uint32_t words[WORDS];
  static uint32_t seed = 1;
  CUmodule module;
  CUfunction step;
  CUdeviceptr pointer;
  if (cuda.module_load(&module, sort_ptx) != CUDA_SUCCESS) return false;
  if (cuda.module_function(&step, module, "step") != CUDA_SUCCESS) return false;
  uint64_t before = 0, after = 0;
  for (int i = 0; i < WORDS; i++) before += words[i] = seed = seed * 1664525u + 1013904223u;
  if (!TRY(cuda.alloc(&pointer, sizeof words))) return true;
  TRY(cuda.to_device(pointer, words, sizeof words));
  for (uint32_t block = 2; block <= WORDS; block *= 2) {
    for (uint32_t distance = block / 2; distance > 0; distance /= 2) {
      void *arguments[] = {&pointer, &distance, &block};
      TRY(cuda.launch(step, WORDS / 256, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
    }
    TRY(cuda.synchronize());
  }
  TRY(cuda.to_host(words, pointer, sizeof words));
  for (int i = 0; i < WORDS; i++) {
    after += words[i];
    if (i > 0 && words[i - 1] > words[i]) {
      fail("not sorted at", i);
      break;
    }
  }
  if (before != after) fail("other words than before", 0);
  TRY(cuda.free(pointer));
  TRY(api.module_unload(module));
  return true;
}

static const struct subject {
  const char *name;
  bool (*parts[MOST])(void); /* false if this driver cannot */
} SUBJECTS[] = {
    {"churn", {memory, modules, streams, events, graphs, in_order, page_locked, plans}},
    {"fft", {transform}},
    {"sort", {sort}},
    {"alternate", {interrupted_by_signals, interrupted_alternate, interrupted_alternate, interrupted_alternate}},
    {"long", {interrupted_by_signals, interrupted_long, interrupted_long, interrupted_long}},
    {"waiting", {interrupted_by_signals, interrupted_waiting, interrupted_waiting, interrupted_waiting}},
    {"cancel", {interrupted_cancel, interrupted_cancel, interrupted_poll}},
    {"fork", {interrupted_fork, interrupted_poll, interrupted_poll}},
    {"fiber", {interrupted_fiber, interrupted_fiber, interrupted_poll}},
};

static const struct subject *subject;

static void *part(void *number) {
  intptr_t n = (intptr_t)number;
  cuda_must(cuda.set_current(context), "cuCtxSetCurrent");
  /* Threads that only launch queue work faster than the GPU does it: no lock would succeed. The thread that sends signals
   * calls nothing: a handler may hold a lock of the driver, and wait for that thread. */
  bool synchronizes = subject->parts[n] != interrupted_by_signals;
  while (subject->parts[n]())
    if (atomic_fetch_add(&rounds[n], 1) % 16 == 0 && synchronizes) TRY(cuda.synchronize());
  cannot[n] = true;
  return NULL;
}

static void may_find(void *library, const char *name, void *function) {
  void *found = library == NULL ? NULL : dlsym(library, name);
  memcpy(function, &found, sizeof found);
}

static void find_all(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  may_find(library, "cuModuleUnload", &api.module_unload);
  may_find(library, "cuStreamCreate", &api.stream_create);
  may_find(library, "cuStreamDestroy_v2", &api.stream_destroy);
  may_find(library, "cuStreamQuery", &api.stream_query);
  may_find(library, "cuEventCreate", &api.event_create);
  may_find(library, "cuEventDestroy_v2", &api.event_destroy);
  may_find(library, "cuEventRecord", &api.event_record);
  may_find(library, "cuEventQuery", &api.event_query);
  may_find(library, "cuStreamBeginCapture_v2", &api.capture);
  may_find(library, "cuStreamEndCapture", &api.end_capture);
  may_find(library, "cuGraphInstantiateWithFlags", &api.instantiate);
  may_find(library, "cuGraphLaunch", &api.graph_launch);
  may_find(library, "cuGraphExecDestroy", &api.exec_destroy);
  may_find(library, "cuGraphDestroy", &api.graph_destroy);
  may_find(library, "cuMemAllocAsync", &api.alloc_async);
  may_find(library, "cuMemFreeAsync", &api.free_async);
  may_find(library, "cuMemHostAlloc", &api.host_alloc);
  may_find(library, "cuMemFreeHost", &api.host_free);
  const char *names[] = {getenv("CUFFT"), "libcufft.so.12", "libcufft.so.11"};
  void *cufft = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && cufft == NULL; i++)
    if (names[i] != NULL) cufft = dlopen(names[i], RTLD_NOW);
  may_find(cufft, "cufftPlan2d", &api.plan);
  may_find(cufft, "cufftExecR2C", &api.forward);
  may_find(cufft, "cufftExecC2R", &api.backward);
  may_find(cufft, "cufftDestroy", &api.plan_destroy);
}

static void answer(const char *request, char *reply) {
  uint64_t all = 0;
  int length = 0;
  if (strcmp(request, "polls") == 0) {
    for (int i = 0; i < threads; i++) all += rounds[i];
    snprintf(reply, ANSWER_SIZE, "%llu %llu", (unsigned long long)all, (unsigned long long)failures);
  } else if (strcmp(request, "rounds") == 0) {
    for (int i = 0; i < threads; i++) {
      if (cannot[i]) length += snprintf(reply + length, ANSWER_SIZE - (size_t)length, "- ");
      else length += snprintf(reply + length, ANSWER_SIZE - (size_t)length, "%llu ", (unsigned long long)rounds[i]);
    }
  } else if (strcmp(request, "failed") == 0) {
    snprintf(reply, ANSWER_SIZE, "%s", first_failure);
  } else if (!cuda_answer(request, reply)) {
    snprintf(reply, ANSWER_SIZE, "not understood: %.100s", request);
  }
}

int main(int argc, char **argv) {
  struct options options = parse_options(argc, argv);
  for (size_t i = 0; options.subject != NULL && i < sizeof SUBJECTS / sizeof *SUBJECTS; i++)
    if (strcmp(SUBJECTS[i].name, options.subject) == 0) subject = &SUBJECTS[i];
  if (subject == NULL) {
    fprintf(stderr, "--subject names what it does\n");
    return 2;
  }
  cuda_start(options.gpu);
  find_all();
  CUmodule module;
  CUresult (*current)(CUcontext *);
  may_find(dlopen("libcuda.so.1", RTLD_NOW), "cuCtxGetCurrent", &current);
  cuda_must(current(&context), "cuCtxGetCurrent");
  interrupted_start(context, api.stream_query, fail);
  cuda_must(cuda.module_load(&module, ptx), "cuModuleLoadData");
  cuda_must(cuda.module_function(&spin, module, "spin"), "cuModuleGetFunction spin");
  for (intptr_t i = 0; i < MOST && subject->parts[i] != NULL; i++) {
    pthread_t thread;
    threads++;
    if (pthread_create(&thread, NULL, part, (void *)i) != 0) return 3;
  }
  return serve(&options, answer);
}
