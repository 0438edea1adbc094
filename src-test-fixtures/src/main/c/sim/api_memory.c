/* The driver API for memory. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faults.h"
#include "memory.h"
#include "notifier.h"
#include "process.h"
#include "slot.h"

#define BLOCK (4 * MIB)

/* The lock does not keep it out; while the process is off its GPU it fails. */
static CUresult information(size_t *free, size_t *total) {
  CUcontext context;
  if (!the_process.initialised || the_process.forked) return CUDA_ERROR_NOT_INITIALIZED;
  CUresult result = process_current(&context);
  if (result != CUDA_SUCCESS) return result;
  if (free == NULL || total == NULL) return CUDA_ERROR_INVALID_VALUE;
  uint64_t used;
  if (!notifier_is_mapped() || !card_used(the_process.gpu_of[context->ordinal], &used))
    return CUDA_ERROR_OPERATING_SYSTEM;
  *total = machine()->memory;
  *free = used < *total ? *total - used : 0;
  return CUDA_SUCCESS;
}

static CUresult cuMemGetInfo_v2_implementation(size_t *free, size_t *total) {
  WITH_FAULTS_OF("cuMemGetInfo_v2", getpid(), information(free, total));
}

EXPORT_BY_SLOT(cuMemGetInfo_v2, (size_t *free, size_t *total), free, total)

static CUresult allocate(CUdeviceptr *pointer, size_t size, bool managed) {
  CUcontext context;
  CUresult result = process_enter_context(&context);
  if (result != CUDA_SUCCESS) return result;
  return process_leave(managed ? memory_allocate_managed(size, pointer)
                               : memory_allocate(context->ordinal, size, pointer));
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t size) {
  WITH_FAULTS(getpid(), allocate(pointer, size, false));
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t size, unsigned int flags) {
  WITH_FAULTS(getpid(), flags != 1 && flags != 2 ? CUDA_ERROR_INVALID_VALUE : allocate(pointer, size, true));
}

static CUresult release(CUdeviceptr pointer) {
  CUcontext context;
  CUresult result = process_enter_context(&context);
  if (result != CUDA_SUCCESS) return result;
  process_synchronise();
  return process_leave(memory_free(pointer));
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr pointer) { WITH_FAULTS(getpid(), release(pointer)); }

static CUresult write_host(CUdeviceptr to, const void *from, size_t size) {
  CUcontext context;
  CUresult result = process_enter_context(&context);
  if (result != CUDA_SUCCESS) return result;
  process_synchronise();
  return process_leave(memory_write(to, from, size));
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size) {
  WITH_FAULTS(getpid(), write_host(to, from, size));
}

static CUresult read_host(void *to, CUdeviceptr from, size_t size) {
  CUcontext context;
  CUresult result = process_enter_context(&context);
  if (result != CUDA_SUCCESS) return result;
  process_synchronise();
  return process_leave(memory_read(to, from, size));
}

EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size) {
  WITH_FAULTS(getpid(), read_host(to, from, size));
}

/* Fills or copies block by block through a buffer of the host. */
static CUresult by_blocks(CUdeviceptr to, CUdeviceptr from, size_t size, char *filled) {
  char *buffer = filled != NULL ? filled : malloc(BLOCK);
  if (buffer == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = CUDA_SUCCESS;
  for (size_t done = 0; result == CUDA_SUCCESS && done < size; done += BLOCK) {
    size_t part = size - done < BLOCK ? size - done : BLOCK;
    if (filled == NULL) result = memory_read(buffer, from + done, part);
    if (result == CUDA_SUCCESS) result = memory_write(to + done, buffer, part);
  }
  free(buffer);
  return result;
}

EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size) {
  CUcontext context;
  CUresult result = process_enter_context(&context);
  if (result != CUDA_SUCCESS) return result;
  process_synchronise();
  return process_leave(by_blocks(to, from, size, NULL));
}

static CUresult fill(CUdeviceptr to, unsigned int value, size_t count, size_t width) {
  CUcontext context;
  CUresult result = process_enter_context(&context);
  if (result != CUDA_SUCCESS) return result;
  process_synchronise();
  char *buffer = malloc(BLOCK);
  if (buffer == NULL) return process_leave(CUDA_ERROR_OUT_OF_MEMORY);
  for (size_t i = 0; i < BLOCK; i += width) memcpy(buffer + i, &value, width); /* little endian */
  return process_leave(by_blocks(to, 0, count * width, buffer));
}

EXPORT CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count) { return fill(to, value, count, 4); }

EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) { return fill(to, value, count, 1); }
