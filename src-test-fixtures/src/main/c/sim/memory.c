/* The bytes of a GPU are in a memfd of the process, one for each GPU, with each allocation at an offset of its
 * own. As on a real GPU the host cannot read them through the device pointer: that is an address in a reserved,
 * inaccessible range, which stays reserved while the bytes are on the host, so the pointers keep their values.
 * While the process is checkpointed the memfd is gone: the bytes are only in the save area. */
#include "memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "save_area.h"

#define BLOCK (2 * MIB) /* of the GPU's memory: what is smaller shares blocks with its like */
#define PAGE 4096ull

struct allocation {
  char *address;
  size_t size;      /* as asked for */
  size_t reserved;  /* in whole pages */
  int ordinal;
  bool managed;
  off_t offset;     /* in the GPU's file; never used twice */
  size_t saved_at;  /* in the save area */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct allocation *allocations;
static size_t count, room;
static off_t next_offset;
static int file_plus_1[SIM_MAX_GPUS]; /* 0: none */
static size_t contexts_at; /* in the save area: where the allocations end */

static int file_of(int ordinal) {
  if (file_plus_1[ordinal] == 0) {
    int fd = memfd_create("nvidia-gpu-memory", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, INT64_MAX / 2) != 0) {
      close(fd);
      fd = -1;
    }
    file_plus_1[ordinal] = fd + 1;
  }
  return file_plus_1[ordinal] - 1;
}

/* The allocation that holds [pointer, pointer + size), or NULL. */
static struct allocation *find(CUdeviceptr pointer, size_t size) {
  for (size_t i = 0; i < count; i++) {
    CUdeviceptr start = (CUdeviceptr)(uintptr_t)allocations[i].address;
    if (pointer >= start && pointer - start < allocations[i].size)
      return size <= allocations[i].size - (pointer - start) ? &allocations[i] : NULL;
  }
  return NULL;
}

static bool grow(void) {
  if (count < room) return true;
  size_t more = room == 0 ? 64 : 2 * room;
  struct allocation *moved = realloc(allocations, more * sizeof *moved);
  if (moved == NULL) return false;
  allocations = moved;
  room = more;
  return true;
}

static CUresult add(size_t size, int ordinal, bool managed, CUdeviceptr *pointer) {
  size_t reserved = (size + PAGE - 1) / PAGE * PAGE;
  void *address = managed ? mmap(NULL, reserved, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)
                          : mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  allocations[count++] = (struct allocation){address, size, reserved, ordinal, managed, next_offset, 0};
  next_offset += (off_t)reserved;
  *pointer = (CUdeviceptr)(uintptr_t)address;
  return CUDA_SUCCESS;
}

CUresult memory_allocate(int ordinal, size_t size, CUdeviceptr *pointer) {
  if (size == 0 || pointer == NULL) return CUDA_ERROR_INVALID_VALUE;
  if (size > machine()->memory) return CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_lock(&mutex);
  the_process.allocated[ordinal] += size;
  CUresult result = grow() && file_of(ordinal) >= 0 ? process_charge() : CUDA_ERROR_OPERATING_SYSTEM;
  if (result == CUDA_SUCCESS) result = add(size, ordinal, false, pointer);
  if (result != CUDA_SUCCESS) the_process.allocated[ordinal] -= size;
  pthread_mutex_unlock(&mutex);
  return result;
}

CUresult memory_allocate_managed(size_t size, CUdeviceptr *pointer) {
  if (size == 0 || pointer == NULL) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&mutex);
  CUresult result = grow() ? add(size, 0, true, pointer) : CUDA_ERROR_OUT_OF_MEMORY;
  if (result == CUDA_SUCCESS) the_process.managed++;
  pthread_mutex_unlock(&mutex);
  return result;
}

static void punch(const struct allocation *a) {
  fallocate(file_of(a->ordinal), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, a->offset, (off_t)a->reserved);
}

/* Removes the allocation; the card is not told yet. */
static void take(struct allocation *a) {
  if (a->managed) {
    the_process.managed--;
  } else {
    the_process.allocated[a->ordinal] -= a->size;
    punch(a);
  }
  munmap(a->address, a->reserved);
  memmove(a, a + 1, (size_t)(&allocations[--count] - a) * sizeof *a);
}

CUresult memory_free(CUdeviceptr pointer) {
  if (pointer == 0) return CUDA_SUCCESS;
  pthread_mutex_lock(&mutex);
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  struct allocation *a = find(pointer, 0);
  if (a != NULL && (CUdeviceptr)(uintptr_t)a->address == pointer) {
    take(a);
    result = process_charge();
  }
  pthread_mutex_unlock(&mutex);
  return result;
}

void memory_free_all(int ordinal) {
  pthread_mutex_lock(&mutex);
  for (size_t i = count; i-- > 0;)
    if (allocations[i].ordinal == ordinal) take(&allocations[i]);
  pthread_mutex_unlock(&mutex);
}

/* Reads or writes all of it, or returns false. */
static bool move_bytes(bool to_gpu, int fd, char *host, size_t size, off_t offset) {
  while (size > 0) {
    ssize_t moved = to_gpu ? pwrite(fd, host, size, offset) : pread(fd, host, size, offset);
    if (moved <= 0) return false;
    host += moved;
    offset += moved;
    size -= (size_t)moved;
  }
  return true;
}

static CUresult copy(bool to_gpu, CUdeviceptr device, void *host, size_t size) {
  if (size == 0) return CUDA_SUCCESS;
  pthread_mutex_lock(&mutex);
  const struct allocation *a = find(device, size);
  CUresult result = a == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  struct allocation found = a == NULL ? (struct allocation){0} : *a;
  pthread_mutex_unlock(&mutex);
  if (result != CUDA_SUCCESS) return result;
  off_t offset = (off_t)(device - (CUdeviceptr)(uintptr_t)found.address);
  if (found.managed) memcpy(to_gpu ? found.address + offset : host, to_gpu ? host : found.address + offset, size);
  else if (!move_bytes(to_gpu, file_of(found.ordinal), host, size, found.offset + offset))
    result = CUDA_ERROR_UNKNOWN;
  return result;
}

CUresult memory_write(CUdeviceptr to, const void *from, size_t size) {
  return copy(true, to, (void *)(uintptr_t)from, size);
}

CUresult memory_read(void *to, CUdeviceptr from, size_t size) { return copy(false, from, to, size); }

/* Gives each allocation its place in the save area, in the order of creation: large ones with the requested size,
 * small ones in blocks, which are saved whole. Returns the size of all. */
static size_t lay_out(void) {
  size_t end = 0, used[SIM_MAX_GPUS] = {0}, block_end[SIM_MAX_GPUS] = {0};
  for (size_t i = 0; i < count; i++) {
    struct allocation *a = &allocations[i];
    if (a->reserved >= BLOCK) {
      a->saved_at = end;
      end += a->reserved;
      continue;
    }
    if (block_end[a->ordinal] - used[a->ordinal] < a->reserved) {
      used[a->ordinal] = end;
      end += BLOCK;
      block_end[a->ordinal] = end;
    }
    a->saved_at = used[a->ordinal];
    used[a->ordinal] += a->reserved;
  }
  return end;
}

static CUresult move_allocation(bool to_gpu, const struct allocation *a, struct transfer *transfer) {
  int fd = file_of(a->ordinal);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  for (size_t at = 0; at < a->reserved; at += SAVE_AREA_PIECE) {
    size_t size = a->reserved - at < SAVE_AREA_PIECE ? a->reserved - at : SAVE_AREA_PIECE;
    if (to_gpu) save_area_load(a->saved_at + at, size);
    if (!move_bytes(to_gpu, fd, save_area_staging(), size, a->offset + (off_t)at)) return CUDA_ERROR_OPERATING_SYSTEM;
    if (!to_gpu) save_area_store(a->saved_at + at, size);
    if (!transfer_advance(transfer, size)) return CUDA_ERROR_UNKNOWN;
  }
  return CUDA_SUCCESS;
}

/* Copies all allocations and contexts between the GPUs and the save area. */
static CUresult move_all(bool to_gpu, bool (*middle)(void)) {
  uint64_t bandwidth = to_gpu ? machine()->restore_bandwidth : machine()->checkpoint_bandwidth;
  struct transfer transfer = {monotonic_ns(), bandwidth, 0, save_area_size() - contexts_at, false, middle};
  for (size_t i = 0; i < count; i++) transfer.total += allocations[i].reserved;
  for (size_t i = 0; i < count; i++) {
    CUresult result = move_allocation(to_gpu, &allocations[i], &transfer);
    if (result != CUDA_SUCCESS) return result;
  }
  /* Not measured: what the driver does with a context that is not what it saved. */
  bool whole = to_gpu ? save_area_check_contexts(contexts_at, &transfer)
                      : save_area_write_contexts(contexts_at, &transfer);
  return whole && (transfer.half || middle()) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

void memory_forget(void) {
  for (int i = 0; i < SIM_MAX_GPUS; i++) {
    if (file_plus_1[i] != 0) close(file_plus_1[i] - 1);
    file_plus_1[i] = 0;
  }
}

/* Truncated, because a child has the files too if it was made without the handlers of fork. */
static void drop_gpu(void) {
  for (int i = 0; i < SIM_MAX_GPUS; i++) {
    if (file_plus_1[i] == 0) continue;
    (void)!ftruncate(file_plus_1[i] - 1, 0);
    close(file_plus_1[i] - 1);
    file_plus_1[i] = 0;
  }
}

CUresult memory_to_host(bool (*middle)(void)) {
  contexts_at = lay_out();
  size_t size = contexts_at;
  for (int i = 0; i < the_process.devices; i++)
    if (the_process.contexts[i] > 0) size += machine()->save_overhead;
  if (!save_area_make(size)) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = move_all(false, middle);
  if (result == CUDA_SUCCESS) drop_gpu();
  else save_area_unmap(); /* the GPU still has all of it */
  return result;
}

CUresult memory_to_gpu(bool (*middle)(void)) {
  CUresult result = move_all(true, middle);
  if (result == CUDA_SUCCESS) save_area_unmap();
  return result;
}
