/* The machine itself.
 *
 *   host warm GIB    touches so much host memory once, as a machine whose memory grows when touched needs, and says how
 *                    long the first and a second touch of 8 GiB take
 *   host bus         page-locked copies to the GPU and back, for reference
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "harness.h"

enum { TOUCHERS = 4 };

static const size_t step = (size_t)256 << 20;

struct touch {
  char *memory;
  size_t bytes;
  _Atomic size_t next;
};

/* Waits a little where the machine has little left, so that it has time to grow. */
static void *touch(void *argument) {
  struct touch *t = argument;
  for (size_t at; (at = atomic_fetch_add(&t->next, step)) < t->bytes;) {
    for (double end = seconds() + 1; host_available() < (size_t)3 << 29 && seconds() < end;) sleep_for(0.01);
    for (size_t p = at; p < at + step && p < t->bytes; p += 4096) t->memory[p] = 1;
  }
  return NULL;
}

static double touch_all(size_t bytes) {
  struct touch t = {.bytes = bytes};
  pthread_t threads[TOUCHERS];
  t.memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (t.memory == MAP_FAILED) return -1;
  madvise(t.memory, bytes, MADV_HUGEPAGE);
  double begin = seconds();
  for (int i = 0; i < TOUCHERS; i++) pthread_create(&threads[i], NULL, touch, &t);
  for (int i = 0; i < TOUCHERS; i++) pthread_join(threads[i], NULL);
  double took = seconds() - begin;
  munmap(t.memory, bytes);
  return took;
}

static void warm(size_t gibibytes) {
  FILE *score = fopen("/proc/self/oom_score_adj", "w"); /* if the machine cannot grow that much, this process goes */
  if (score != NULL) {
    fprintf(score, "1000");
    fclose(score);
  }
  printf("  host memory available %zu MiB before\n", host_available() >> 20);
  double first = touch_all(gibibytes << 30);
  printf("  first touch of %zu GiB by %d threads: %.1f s; available then %zu MiB\n", gibibytes, TOUCHERS, first,
         host_available() >> 20);
  printf("  second touch of 8 GiB: %.2f s\n", touch_all((size_t)8 << 30));
}

static void bus(void) {
  const size_t bytes = (size_t)256 << 20;
  void *host = NULL;
  CUdeviceptr device;
  cuda_start();
  if (cuda.host_alloc == NULL) {
    printf("  no cuMemHostAlloc\n");
    return;
  }
  must(cuda.host_alloc(&host, bytes, 0), "cuMemHostAlloc");
  must(cuda.alloc(&device, bytes), "cuMemAlloc");
  memset(host, 1, bytes);
  for (int direction = 0; direction < 2; direction++) {
    double begin = 0;
    for (int i = 0; i < 12; i++) {
      if (i == 2) begin = seconds();
      must(direction == 0 ? cuda.to_device(device, host, bytes) : cuda.to_host(host, device, bytes), "copy");
    }
    printf("  page-locked copy, %s: %.1f GB/s\n", direction == 0 ? "host to GPU" : "GPU to host",
           10.0 * (double)bytes / (seconds() - begin) / 1e9);
  }
}

int main(int argc, char **argv) {
  harness_start();
  if (argc > 2 && strcmp(argv[1], "warm") == 0) warm((size_t)atoi(argv[2]));
  else if (argc > 1 && strcmp(argv[1], "bus") == 0) bus();
  else {
    fprintf(stderr, "usage: host warm GIB | host bus\n");
    return 2;
  }
  return 0;
}
