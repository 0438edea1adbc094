/* The driver API as the workloads use it, looked up when they run, so that the same binary meets the real driver or
 * the simulated one, whichever libcuda.so.1 is found first. */
#ifndef WORKLOAD_CUDA_H
#define WORKLOAD_CUDA_H

#include "../cuda_abi.h"

struct cuda {
  CUresult (*init)(unsigned int flags);
  CUresult (*error_name)(CUresult result, const char **name);
  CUresult (*device_get)(CUdevice *device, int ordinal);
  CUresult (*device_uuid)(CUuuid *uuid, CUdevice device);
  CUresult (*primary_retain)(CUcontext *context, CUdevice device);
  CUresult (*set_current)(CUcontext context);
  CUresult (*synchronize)(void);
  CUresult (*memory_info)(size_t *free, size_t *total);
  CUresult (*alloc)(CUdeviceptr *pointer, size_t size);
  CUresult (*alloc_managed)(CUdeviceptr *pointer, size_t size, unsigned int flags);
  CUresult (*free)(CUdeviceptr pointer);
  CUresult (*to_device)(CUdeviceptr to, const void *from, size_t size);
  CUresult (*to_host)(void *to, CUdeviceptr from, size_t size);
  CUresult (*module_load)(CUmodule *module, const void *image);
  CUresult (*module_function)(CUfunction *function, CUmodule module, const char *name);
  CUresult (*launch)(CUfunction function, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                     unsigned int, unsigned int shared, CUstream stream, void **arguments, void **extra);
};

extern struct cuda cuda;

/* Loads libcuda.so.1, makes a context on the GPU; ends the program with status 3 and a message if that fails. */
void cuda_start(int gpu);

/* Ends the program with status 3 and a message unless the result is success. */
void cuda_must(CUresult result, const char *what);

/* Writes "error NUMBER NAME" into the reply. */
void cuda_tell(CUresult result, char *reply);

/* Answers the requests of any CUDA workload: "gpu" (UUID), "memory" (free and total bytes). False for other requests. */
int cuda_answer(const char *request, char *reply);

#endif
