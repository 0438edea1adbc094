#include "calls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cuda_calls cuda;
struct nvml_calls nvml;

static void find(void *library, const char *name, void *function) {
  void *found = dlsym(library, name);
  memcpy(function, &found, sizeof found);
}

#define FIND_CUDA(field, symbol, arguments) find(library, symbol, &cuda.field);
#define FIND_NVML(field, symbol, arguments) find(library, symbol, &nvml.field);

void cuda_load(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(3);
  }
  CUDA_CALLS(FIND_CUDA)
}

int nvml_load(void) {
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (library == NULL) return 0;
  NVML_CALLS(FIND_NVML)
  return nvml.init != NULL;
}

const char *result_name(int result) {
  static _Thread_local char texts[8][96];
  static _Thread_local int next;
  char *text = texts[next++ % 8];
  const char *name = NULL;
  if (cuda.error_name == NULL || cuda.error_name(result, &name) != CUDA_SUCCESS || name == NULL) name = "?";
  if (strncmp(name, "CUDA_ERROR_", 11) == 0) name += 11;
  snprintf(text, sizeof texts[0], "%d %s", result, result == 0 ? "ok" : name);
  return text;
}

void must(int result, const char *what) {
  if (result == CUDA_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", what, result_name(result));
  exit(3);
}

CUcontext cuda_start(void) {
  CUdevice device;
  CUcontext context;
  must(cuda.init(0), "cuInit");
  must(cuda.device_get(&device, 0), "cuDeviceGet");
  must(cuda.primary_retain(&context, device), "cuDevicePrimaryCtxRetain");
  must(cuda.set_current(context), "cuCtxSetCurrent");
  return context;
}
