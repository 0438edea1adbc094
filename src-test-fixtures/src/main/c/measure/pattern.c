#include "pattern.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "board.h"

/* Memory repeats every PATTERN bytes, but for the first word of each block, which is the block's number. */
enum { BLOCK = 2 << 20, PATTERN = 32 << 20, VERIFIERS = 4, ALLOCATIONS = 64 };

static struct allocation {
  CUdeviceptr at;
  size_t bytes;
} allocations[ALLOCATIONS];
static int count;
static uint64_t *pattern;

static uint64_t stamp(int allocation, size_t block) { return 0xb10c000000000000u | (uint64_t)allocation << 40 | block; }

static void make_pattern(void) {
  pattern = malloc(PATTERN);
  uint64_t value = 88172645463325252u;
  for (size_t i = 0; i < PATTERN / 8; i++) {
    value ^= value << 13;
    value ^= value >> 7;
    value ^= value << 17;
    pattern[i] = value;
  }
}

void pattern_add(size_t bytes, int empty) {
  if (pattern == NULL) make_pattern();
  struct allocation *a = &allocations[count];
  must(cuda.alloc(&a->at, bytes), "cuMemAlloc");
  if (empty) return;
  a->bytes = bytes;
  size_t done = bytes < PATTERN ? bytes : PATTERN;
  must(cuda.to_device(a->at, pattern, done), "cuMemcpyHtoD");
  while (done < bytes) {
    size_t size = bytes - done < done ? bytes - done : done;
    must(cuda.on_device(a->at + done, a->at, size), "cuMemcpyDtoD");
    done += size;
  }
  for (size_t block = 0; block * BLOCK + 8 <= bytes; block++) {
    uint64_t word = stamp(count, block);
    must(cuda.to_device(a->at + block * BLOCK, &word, sizeof word), "cuMemcpyHtoD");
  }
  must(cuda.synchronize(), "cuCtxSynchronize");
  count++;
}

struct job {
  pthread_t thread;
  CUcontext context;
  unsigned every;
  _Atomic size_t *next; /* the next 16 blocks of all allocations, counted as one row */
  size_t compared, wrong;
  int result;
};

static size_t blocks_of(const struct allocation *a) { return (a->bytes + BLOCK - 1) / BLOCK; }

static void verify_block(struct job *job, char *buffer, int number, size_t block) {
  const struct allocation *a = &allocations[number];
  size_t at = block * BLOCK, size = a->bytes - at < BLOCK ? a->bytes - at : BLOCK;
  if (block % job->every != 0 && size >= 8) size = 8;
  int result = cuda.to_host(buffer, a->at + at, size);
  if (result != 0) job->result = result;
  uint64_t word = stamp(number, block), skip = 0;
  if (size >= 8) {
    skip = 8;
    if (memcmp(buffer, &word, 8) != 0) job->wrong++;
  }
  if (memcmp(buffer + skip, (char *)pattern + at % PATTERN + skip, size - skip) != 0) job->wrong++;
  job->compared += size;
}

static void *verify(void *argument) {
  struct job *job = argument;
  char *buffer = malloc(BLOCK);
  job->result = cuda.set_current(job->context);
  while (job->result == 0) {
    size_t first = atomic_fetch_add(job->next, 16), row = 0;
    int any = 0;
    for (int i = 0; i < count; i++) {
      size_t blocks = blocks_of(&allocations[i]);
      for (size_t b = first > row ? first - row : 0; b < blocks && row + b < first + 16; b++) {
        verify_block(job, buffer, i, b);
        any = 1;
      }
      row += blocks;
    }
    if (!any) break;
  }
  free(buffer);
  return NULL;
}

void pattern_verify(CUcontext context, unsigned every, char *answer) {
  struct timespec begin, end;
  _Atomic size_t next = 0;
  struct job jobs[VERIFIERS] = {0}, all = {0};
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = 0; i < VERIFIERS; i++) {
    jobs[i].context = context;
    jobs[i].every = every == 0 ? 1 : every;
    jobs[i].next = &next;
    pthread_create(&jobs[i].thread, NULL, verify, &jobs[i]);
  }
  for (int i = 0; i < VERIFIERS; i++) {
    pthread_join(jobs[i].thread, NULL);
    all.compared += jobs[i].compared;
    all.wrong += jobs[i].wrong;
    if (jobs[i].result != 0) all.result = jobs[i].result;
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  double took = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
  if (all.result != 0) snprintf(answer, TEXT, "WRONG: copying back answered %s", result_name(all.result));
  else if (all.wrong > 0) snprintf(answer, TEXT, "WRONG: %zu blocks differ", all.wrong);
  else snprintf(answer, TEXT, "ok, %.1f GB compared in %.1f s", (double)all.compared / 1e9, took);
}
