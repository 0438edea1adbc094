/* The counter: a number in GPU memory, 100 at first. Every datagram adds one on the GPU and is answered with the
 * number; one that is `inc NAME` with the number, a blank and NAME. With --print each number is printed too, as
 * `number N` in a line. Some requests do other things:
 *   get         answers the number
 *   spin MS     keeps the GPU busy that long, and answers at once
 *   managed     allocates a little managed memory (the driver refuses to checkpoint then)
 *   unmanaged   frees it
 *   fork        makes a child that only waits, and answers its pid; as every forked child of a CUDA process it has
 *               the device files and mappings of its parent
 *   unfork      ends that child
 *   loaders, traffic, child ...   see loaders.h: forked children of other kinds
 *   verify, ... see pattern.h: with --mib N it holds a pattern besides
 *   churn, area, churned   see churn.h: it changes its own memory
 *   tcp, ...    see holds.h: it holds what is named
 *   polls       see polls.h: with --pollers N threads poll the driver besides
 *   gpu, memory see cuda.h
 *   nvml, ...   see nvml.h: it uses NVML besides
 *   setting, ...   see settings.h: it has attributes that CRIU does not restore */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "churn.h"
#include "cuda.h"
#include "holds.h"
#include "kernels.h"
#include "loaders.h"
#include "nvml.h"
#include "pattern.h"
#include "polls.h"
#include "settings.h"
#include "udp.h"

static CUdeviceptr value, managed;
static CUfunction increment, spin;
static pid_t child;
static bool prints;

static CUresult launch(CUfunction function, void *argument) {
  void *arguments[] = {argument};
  return cuda.launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL);
}

static CUresult tell_value(char *reply) {
  uint32_t number;
  CUresult result = cuda.to_host(&number, value, sizeof number);
  if (result == CUDA_SUCCESS) snprintf(reply, ANSWER_SIZE, "%u", number);
  return result;
}

/* So that an answer that comes late is not taken for one to another question. */
static void add_name(const char *name, char *reply) {
  size_t length = strlen(reply);
  snprintf(reply + length, ANSWER_SIZE - length, " %s", name);
}

static void begin_child(char *reply) {
  if (child <= 0) child = fork_waiting();
  if (child < 0) {
    strcpy(reply, "error it did not begin");
    return;
  }
  snprintf(reply, ANSWER_SIZE, "%d", (int)child);
}

static void end_child(void) {
  if (child <= 1) return;
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  child = 0;
}

static CUresult act(const char *request, char *reply) {
  if (strcmp(request, "get") == 0) return tell_value(reply);
  if (strncmp(request, "spin ", 5) == 0) {
    uint64_t nanoseconds = strtoull(request + 5, NULL, 10) * 1000000ull;
    return launch(spin, &nanoseconds);
  }
  if (strcmp(request, "managed") == 0) return managed != 0 ? CUDA_SUCCESS : cuda.alloc_managed(&managed, 65536, 1);
  if (strcmp(request, "unmanaged") == 0) {
    CUresult result = cuda.free(managed);
    managed = 0;
    return result;
  }
  if (strcmp(request, "fork") == 0) {
    begin_child(reply);
    return CUDA_SUCCESS;
  }
  if (strcmp(request, "unfork") == 0) {
    end_child();
    return CUDA_SUCCESS;
  }
  CUresult result = launch(increment, &value);
  if (result == CUDA_SUCCESS) result = tell_value(reply);
  if (result == CUDA_SUCCESS && prints) {
    printf("number %s\n", reply);
    fflush(stdout);
  }
  if (result == CUDA_SUCCESS && strncmp(request, "inc ", 4) == 0) add_name(request + 4, reply);
  return result;
}

static void answer(const char *request, char *reply) {
  if (cuda_answer(request, reply) || pattern_answer(request, reply) || nvml_answer(request, reply) || hold(request, reply)) return;
  if (loaders_answer(request, reply) || polls_answer(request, reply) || churn_answer(request, reply)) return;
  if (settings_answer(request, reply)) return;
  strcpy(reply, "ok");
  CUresult result = act(request, reply);
  if (result != CUDA_SUCCESS) cuda_tell(result, reply);
}

static int count(const struct options *options) {
  const uint32_t first = 100;
  CUmodule module;
  cuda_start(options->gpu);
  cuda_must(cuda.module_load(&module, ptx), "cuModuleLoadData");
  cuda_must(cuda.module_function(&increment, module, "increment"), "cuModuleGetFunction increment");
  cuda_must(cuda.module_function(&spin, module, "spin"), "cuModuleGetFunction spin");
  cuda_must(cuda.alloc(&value, sizeof first), "cuMemAlloc");
  cuda_must(cuda.to_device(value, &first, sizeof first), "cuMemcpyHtoD");
  pattern_start(options->mebibytes < 0 ? 0 : options->mebibytes, options->seed);
  polls_start(options->pollers);
  prints = options->prints;
  return serve(options, answer);
}

int main(int argc, char **argv) {
  struct options options = parse_options(argc, argv);
  return run(&options, count);
}
