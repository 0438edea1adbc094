/* GPU memory of this process. */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "process.h"

/* All of these are called inside the gate. */
CUresult memory_allocate(int ordinal, size_t size, CUdeviceptr *pointer);
CUresult memory_allocate_managed(size_t size, CUdeviceptr *pointer);
CUresult memory_free(CUdeviceptr pointer);
void memory_free_all(int ordinal);
CUresult memory_write(CUdeviceptr to, const void *from, size_t size);
CUresult memory_read(void *to, CUdeviceptr from, size_t size);

/* In a forked child: lets go of the files that are its parent's. */
void memory_forget(void);

/* Called with the gate closed. `middle` is called once, when half of the bytes are copied; if it returns false
 * the copy ends there with CUDA_ERROR_UNKNOWN. Where a checkpoint ends in an error all is still on the GPU, and only
 * there; where a restore does, it is still in the save area. */
CUresult memory_to_host(bool (*middle)(void));
CUresult memory_to_gpu(bool (*middle)(void));

#endif
