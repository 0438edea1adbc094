#include "cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "udp.h"

struct cuda cuda;
static CUdevice device;

void cuda_tell(CUresult result, char *reply) {
  const char *name = NULL;
  cuda.error_name(result, &name);
  snprintf(reply, ANSWER_SIZE, "error %d %s", result, name == NULL ? "unknown" : name);
}

void cuda_must(CUresult result, const char *what) {
  if (result == CUDA_SUCCESS) return;
  char text[ANSWER_SIZE];
  cuda_tell(result, text);
  fprintf(stderr, "%s: %s\n", what, text);
  exit(3);
}

static void find(void *library, const char *name, void *function) {
  void *found = dlsym(library, name);
  if (found == NULL) {
    fprintf(stderr, "libcuda.so.1 has no %s\n", name);
    exit(3);
  }
  memcpy(function, &found, sizeof found);
}

void cuda_start(int gpu) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(3);
  }
  find(library, "cuInit", &cuda.init);
  find(library, "cuGetErrorName", &cuda.error_name);
  find(library, "cuDeviceGet", &cuda.device_get);
  find(library, "cuDeviceGetUuid_v2", &cuda.device_uuid);
  find(library, "cuDevicePrimaryCtxRetain", &cuda.primary_retain);
  find(library, "cuCtxSetCurrent", &cuda.set_current);
  find(library, "cuCtxSynchronize", &cuda.synchronize);
  find(library, "cuMemGetInfo_v2", &cuda.memory_info);
  find(library, "cuMemAlloc_v2", &cuda.alloc);
  find(library, "cuMemAllocManaged", &cuda.alloc_managed);
  find(library, "cuMemFree_v2", &cuda.free);
  find(library, "cuMemcpyHtoD_v2", &cuda.to_device);
  find(library, "cuMemcpyDtoH_v2", &cuda.to_host);
  find(library, "cuModuleLoadData", &cuda.module_load);
  find(library, "cuModuleGetFunction", &cuda.module_function);
  find(library, "cuLaunchKernel", &cuda.launch);
  CUcontext context;
  cuda_must(cuda.init(0), "cuInit");
  cuda_must(cuda.device_get(&device, gpu), "cuDeviceGet");
  cuda_must(cuda.primary_retain(&context, device), "cuDevicePrimaryCtxRetain");
  cuda_must(cuda.set_current(context), "cuCtxSetCurrent");
}

static CUresult tell_uuid(char *reply) {
  CUuuid uuid;
  CUresult result = cuda.device_uuid(&uuid, device);
  if (result != CUDA_SUCCESS) return result;
  char *out = reply + sprintf(reply, "GPU-");
  for (int i = 0; i < 16; i++)
    out += sprintf(out, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid.bytes[i]);
  return CUDA_SUCCESS;
}

int cuda_answer(const char *request, char *reply) {
  CUresult result = CUDA_SUCCESS;
  if (strcmp(request, "gpu") == 0) {
    result = tell_uuid(reply);
  } else if (strcmp(request, "memory") == 0) {
    size_t free = 0, total = 0;
    result = cuda.memory_info(&free, &total);
    snprintf(reply, ANSWER_SIZE, "%zu %zu", free, total);
  } else {
    return 0;
  }
  if (result != CUDA_SUCCESS) cuda_tell(result, reply);
  return 1;
}
