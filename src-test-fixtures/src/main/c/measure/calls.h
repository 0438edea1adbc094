/* The functions of libcuda.so.1 and libnvidia-ml.so.1 that the measurements use, looked up when they run, so that the
 * same programs meet the real driver or the simulated one. What a library lacks is NULL. */
#ifndef MEASURE_CALLS_H
#define MEASURE_CALLS_H

#include "../cuda_abi.h"

#define CUDA_CALLS(X)                                                                                            \
  X(init, "cuInit", (unsigned flags))                                                                            \
  X(error_name, "cuGetErrorName", (CUresult result, const char **name))                                          \
  X(device_get, "cuDeviceGet", (CUdevice * device, int ordinal))                                                 \
  X(primary_retain, "cuDevicePrimaryCtxRetain", (CUcontext * context, CUdevice device))                          \
  X(set_current, "cuCtxSetCurrent", (CUcontext context))                                                         \
  X(synchronize, "cuCtxSynchronize", (void))                                                                     \
  X(memory_info, "cuMemGetInfo_v2", (size_t * free, size_t *total))                                              \
  X(alloc, "cuMemAlloc_v2", (CUdeviceptr * pointer, size_t size))                                                \
  X(free, "cuMemFree_v2", (CUdeviceptr pointer))                                                                 \
  X(to_device, "cuMemcpyHtoD_v2", (CUdeviceptr to, const void *from, size_t size))                               \
  X(to_host, "cuMemcpyDtoH_v2", (void *to, CUdeviceptr from, size_t size))                                       \
  X(on_device, "cuMemcpyDtoD_v2", (CUdeviceptr to, CUdeviceptr from, size_t size))                               \
  X(module_load, "cuModuleLoadData", (CUmodule * module, const void *image))                                     \
  X(module_function, "cuModuleGetFunction", (CUfunction * function, CUmodule module, const char *name))          \
  X(launch, "cuLaunchKernel",                                                                                    \
    (CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared,           \
     CUstream stream, void **arguments, void **extra))                                                           \
  X(host_alloc, "cuMemHostAlloc", (void **pointer, size_t size, unsigned flags))                                 \
  X(host_free, "cuMemFreeHost", (void *pointer))                                                                 \
  X(host_register, "cuMemHostRegister_v2", (void *pointer, size_t size, unsigned flags))                         \
  X(host_device, "cuMemHostGetDevicePointer_v2", (CUdeviceptr * device, void *host, unsigned flags))             \
  X(get_state, "cuCheckpointProcessGetState", (int pid, CUprocessState *state))                                  \
  X(restore_thread, "cuCheckpointProcessGetRestoreThreadId", (int pid, int *tid))                                \
  X(lock, "cuCheckpointProcessLock", (int pid, const CUcheckpointLockArgs *arguments))                           \
  X(checkpoint, "cuCheckpointProcessCheckpoint", (int pid, const CUcheckpointCheckpointArgs *arguments))         \
  X(restore, "cuCheckpointProcessRestore", (int pid, const CUcheckpointRestoreArgs *arguments))                  \
  X(unlock, "cuCheckpointProcessUnlock", (int pid, const CUcheckpointUnlockArgs *arguments))

#define NVML_CALLS(X)                                                                                            \
  X(init, "nvmlInit_v2", (void))                                                                                 \
  X(shutdown, "nvmlShutdown", (void))                                                                            \
  X(device, "nvmlDeviceGetHandleByIndex_v2", (unsigned index, nvmlDevice_t *device))                             \
  X(memory, "nvmlDeviceGetMemoryInfo", (nvmlDevice_t device, nvmlMemory_t *memory))                              \
  X(processes, "nvmlDeviceGetComputeRunningProcesses_v3",                                                        \
    (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *processes))                                        \
  X(utilization, "nvmlDeviceGetUtilizationRates", (nvmlDevice_t device, unsigned rates[2]))

#define DECLARE_CALL(field, symbol, arguments) int(*field) arguments;

struct cuda_calls {
  CUDA_CALLS(DECLARE_CALL)
};

struct nvml_calls {
  NVML_CALLS(DECLARE_CALL)
};

extern struct cuda_calls cuda;
extern struct nvml_calls nvml;

/* Loads libcuda.so.1; ends the program if it is missing. */
void cuda_load(void);

/* Loads libnvidia-ml.so.1; false if it is missing. */
int nvml_load(void);

/* The driver's name of a result, with its number; good until the eighth call after it. */
const char *result_name(int result);

/* cuInit and the primary context of GPU 0; ends the program with a message if that fails. */
CUcontext cuda_start(void);

/* Ends the program with a message unless the result is success. */
void must(int result, const char *what);

#endif
