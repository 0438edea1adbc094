/* The checkpoint functions by hand, each call answered with the driver's number and, for state and tid, the value:
 *   simctl [--lib LIBCUDA] state PID | tid PID | lock PID [MS] | checkpoint PID | restore PID [OLD=NEW ...]
 *                          | unlock PID | self VERB ... | time N PID | version
 *   simctl [--lib LIBNVIDIA-ML] nvml
 * `self` sends state, lock or unlock to simctl itself, after cuInit; `time` calls state N times and prints the
 * nanoseconds of one; `nvml` prints the driver's version and for each GPU its UUID, total, free and used bytes, and
 * the processes on it with their bytes. Works on the real driver as well. The exit status is 0 whatever the
 * number is. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../cuda_abi.h"

#define MAX_PAIRS 16

static void *library;

/* A missing function is an answer too: a driver that is too old. */
static void *function(const char *name) {
  void *found = dlsym(library, name);
  if (found == NULL) {
    printf("missing %s\n", name);
    exit(0);
  }
  return found;
}

static void find(const char *name, void *callable) {
  void *found = function(name);
  memcpy(callable, &found, sizeof found);
}

static CUresult call(const char *name, int pid, void *argument) {
  CUresult (*callable)(int, void *);
  find(name, &callable);
  return callable(pid, argument);
}

static int parse_uuid(const char *text, CUuuid *uuid) {
  if (strncmp(text, "GPU-", 4) == 0) text += 4;
  for (int i = 0; i < 16; i++) {
    unsigned byte;
    if (*text == '-') text++;
    if (sscanf(text, "%2x", &byte) != 1) return -1;
    uuid->bytes[i] = (unsigned char)byte;
    text += 2;
  }
  return 0;
}

static CUresult restore(int pid, int count, char **texts) {
  CUcheckpointGpuPair pairs[MAX_PAIRS];
  CUcheckpointRestoreArgs args = {0};
  if (count > MAX_PAIRS) exit(2);
  for (int i = 0; i < count; i++) {
    const char *split = strchr(texts[i], '=');
    if (split == NULL || parse_uuid(texts[i], &pairs[i].oldUuid) != 0 || parse_uuid(split + 1, &pairs[i].newUuid) != 0)
      exit(2);
  }
  args.gpuPairs = pairs;
  args.gpuPairsCount = (uint32_t)count;
  return call("cuCheckpointProcessRestore", pid, count == 0 ? NULL : &args);
}

static void measure(int pid, long rounds) {
  struct timespec before, after;
  int state;
  clock_gettime(CLOCK_MONOTONIC, &before);
  for (long i = 0; i < rounds; i++) call("cuCheckpointProcessGetState", pid, &state);
  clock_gettime(CLOCK_MONOTONIC, &after);
  double ns = (double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec);
  printf("%.0f ns\n", ns / (double)rounds);
}

static void run(const char *verb, int pid, int count, char **rest) {
  int value = -1;
  if (strcmp(verb, "state") == 0 || strcmp(verb, "tid") == 0) {
    const char *name =
        strcmp(verb, "state") == 0 ? "cuCheckpointProcessGetState" : "cuCheckpointProcessGetRestoreThreadId";
    CUresult result = call(name, pid, &value);
    if (result == CUDA_SUCCESS) printf("0 %d\n", value);
    else printf("%d\n", result);
  } else if (strcmp(verb, "lock") == 0) {
    CUcheckpointLockArgs args = {.timeoutMs = count > 0 ? (uint32_t)atol(rest[0]) : 0};
    printf("%d\n", call("cuCheckpointProcessLock", pid, count > 0 ? &args : NULL));
  } else if (strcmp(verb, "checkpoint") == 0) {
    printf("%d\n", call("cuCheckpointProcessCheckpoint", pid, NULL));
  } else if (strcmp(verb, "restore") == 0) {
    printf("%d\n", restore(pid, count, rest));
  } else if (strcmp(verb, "unlock") == 0) {
    printf("%d\n", call("cuCheckpointProcessUnlock", pid, NULL));
  } else {
    exit(2);
  }
}

/* The words are run one after the other on this very process. */
static void run_on_self(int count, char **verbs) {
  CUresult (*init)(unsigned int);
  find("cuInit", &init);
  printf("%d\n", init(0));
  for (int i = 0; i < count; i++) run(verbs[i], getpid(), 0, NULL);
}

static void print_gpu(nvmlDevice_t device) {
  nvmlReturn_t (*uuid)(nvmlDevice_t, char *, unsigned);
  nvmlReturn_t (*memory)(nvmlDevice_t, nvmlMemory_t *);
  nvmlReturn_t (*processes)(nvmlDevice_t, unsigned *, nvmlProcessInfo_t *);
  find("nvmlDeviceGetUUID", &uuid);
  find("nvmlDeviceGetMemoryInfo", &memory);
  find("nvmlDeviceGetComputeRunningProcesses_v3", &processes);
  char text[96] = "";
  nvmlMemory_t bytes = {0};
  nvmlProcessInfo_t list[64];
  unsigned count = 64;
  if (uuid(device, text, sizeof text) != 0 || memory(device, &bytes) != 0
      || processes(device, &count, list) != 0)
    exit(3);
  printf("%s %llu %llu %llu", text, bytes.total, bytes.free, bytes.used);
  for (unsigned i = 0; i < count; i++) printf(" %u:%llu", list[i].pid, list[i].usedGpuMemory);
  printf("\n");
}

static void print_nvml(void) {
  nvmlReturn_t (*init)(void), (*shutdown)(void);
  nvmlReturn_t (*version)(char *, unsigned), (*count)(unsigned *), (*get)(unsigned, nvmlDevice_t *);
  find("nvmlInit_v2", &init);
  find("nvmlShutdown", &shutdown);
  find("nvmlSystemGetDriverVersion", &version);
  find("nvmlDeviceGetCount_v2", &count);
  find("nvmlDeviceGetHandleByIndex_v2", &get);
  char text[80] = "";
  unsigned gpus = 0;
  if (init() != 0 || version(text, sizeof text) != 0 || count(&gpus) != 0) exit(3);
  printf("%s\n", text);
  for (unsigned i = 0; i < gpus; i++) {
    nvmlDevice_t device;
    if (get(i, &device) != 0) exit(3);
    print_gpu(device);
  }
  shutdown();
}

int main(int argc, char **argv) {
  const char *name = "libcuda.so.1";
  char **words = argv + 1;
  int count = argc - 1;
  if (count >= 2 && strcmp(words[0], "--lib") == 0) {
    name = words[1];
    words += 2;
    count -= 2;
  }
  if (count < 1) return 2;
  library = dlopen(name, RTLD_NOW);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 3;
  }
  if (strcmp(words[0], "self") == 0) run_on_self(count - 1, words + 1);
  else if (strcmp(words[0], "time") == 0 && count == 3) measure(atoi(words[2]), atol(words[1]));
  else if (strcmp(words[0], "nvml") == 0) print_nvml();
  else if (strcmp(words[0], "version") == 0) {
    CUresult (*version)(int *);
    int number = 0;
    find("cuDriverGetVersion", &version);
    CUresult result = version(&number);
    printf("%d %d\n", result, number);
  } else if (count >= 2) run(words[0], atoi(words[1]), count - 2, words + 2);
  else return 2;
  return 0;
}
