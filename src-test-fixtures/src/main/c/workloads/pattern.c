#include "pattern.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "udp.h"

#define MIB (1024ull * 1024ull)
#define CHUNK (4 * MIB)
#define MAX_BLOCKS 256

struct block {
  CUdeviceptr pointer;
  size_t size;
};

static struct block blocks[MAX_BLOCKS];
static int count;
static CUdeviceptr held;
static uint64_t seed;
static uint64_t *expected, *found;

/* The chunk of the pattern that begins at byte `offset` of all that is held. */
static void make_pattern(uint64_t *words, uint64_t offset, size_t size) {
  for (size_t i = 0; i < size / 8; i++) {
    uint64_t word = (offset / 8 + i + 1) * 0x9e3779b97f4a7c15ull ^ seed * 0xd1342543de82ef95ull;
    words[i] = word ^ word >> 31;
  }
}

static size_t chunk_size(const struct block *block, size_t at) {
  return block->size - at < CHUNK ? block->size - at : CHUNK;
}

static CUresult fill(int first_block) {
  uint64_t offset = 0;
  for (int i = 0; i < count; i++) {
    for (size_t at = 0; i >= first_block && at < blocks[i].size; at += CHUNK) {
      size_t size = chunk_size(&blocks[i], at);
      make_pattern(expected, offset + at, size);
      CUresult result = cuda.to_device(blocks[i].pointer + at, expected, size);
      if (result != CUDA_SUCCESS) return result;
    }
    offset += blocks[i].size;
  }
  return CUDA_SUCCESS;
}

static size_t first_difference(size_t size) {
  const unsigned char *a = (unsigned char *)expected, *b = (unsigned char *)found;
  size_t i = 0;
  while (i < size && a[i] == b[i]) i++;
  return i;
}

static CUresult verify(char *reply) {
  uint64_t offset = 0;
  for (int i = 0; i < count; i++) {
    for (size_t at = 0; at < blocks[i].size; at += CHUNK) {
      size_t size = chunk_size(&blocks[i], at);
      make_pattern(expected, offset + at, size);
      memset(found, 0, size);
      CUresult result = cuda.to_host(found, blocks[i].pointer + at, size);
      if (result != CUDA_SUCCESS) return result;
      if (memcmp(expected, found, size) != 0) {
        unsigned long long bad = offset + at + first_difference(size);
        snprintf(reply, ANSWER_SIZE, "bad at %llu", bad);
        return CUDA_SUCCESS;
      }
    }
    offset += blocks[i].size;
  }
  snprintf(reply, ANSWER_SIZE, "ok %llu bytes", (unsigned long long)offset);
  return CUDA_SUCCESS;
}

static CUresult allocate(long mebibytes) {
  if (count == MAX_BLOCKS || mebibytes < 0) return CUDA_ERROR_INVALID_VALUE;
  if (mebibytes == 0) return CUDA_SUCCESS;
  struct block block = {.size = (size_t)mebibytes * MIB};
  CUresult result = cuda.alloc(&block.pointer, block.size);
  if (result != CUDA_SUCCESS) return result;
  blocks[count++] = block;
  return fill(count - 1);
}

static CUresult hold(long mebibytes) {
  return held != 0 || mebibytes <= 0 ? CUDA_ERROR_INVALID_VALUE : cuda.alloc(&held, (size_t)mebibytes * MIB);
}

static CUresult free_all(void) {
  if (held != 0) {
    CUresult result = cuda.free(held);
    if (result != CUDA_SUCCESS) return result;
    held = 0;
  }
  while (count > 0) {
    CUresult result = cuda.free(blocks[count - 1].pointer);
    if (result != CUDA_SUCCESS) return result;
    count--;
  }
  return CUDA_SUCCESS;
}

static CUresult act(const char *request, char *reply) {
  if (strcmp(request, "verify") == 0) return verify(reply);
  if (strncmp(request, "alloc ", 6) == 0) return allocate(atol(request + 6));
  if (strncmp(request, "hold ", 5) == 0) return hold(atol(request + 5));
  if (strcmp(request, "free") == 0) return free_all();
  seed = strtoull(request + strlen("touch "), NULL, 10);
  return fill(0);
}

int pattern_answer(const char *request, char *reply) {
  if (strcmp(request, "verify") != 0 && strncmp(request, "alloc ", 6) != 0
      && strncmp(request, "hold ", 5) != 0 && strcmp(request, "free") != 0 && strncmp(request, "touch ", 6) != 0)
    return 0;
  strcpy(reply, "ok");
  CUresult result = act(request, reply);
  if (result != CUDA_SUCCESS) cuda_tell(result, reply);
  return 1;
}

void pattern_start(long mebibytes, uint64_t first_seed) {
  seed = first_seed;
  expected = malloc(CHUNK);
  found = malloc(CHUNK);
  if (expected == NULL || found == NULL) exit(1);
  cuda_must(allocate(mebibytes), "cannot fill the GPU memory");
}
