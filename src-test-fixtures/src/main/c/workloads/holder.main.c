/* Host memory that is checked all the time: N MiB of private memory without a name. Three quarters keep a pattern, two
 * threads write the rest over and over and look at what they wrote before.
 *   where    "ADDRESS BYTES", the address in hexadecimal
 *   verify   "ok N bytes", or "bad at OFFSET"
 *   rounds   how often the threads have written their parts, or "bad at OFFSET"
 * and what churn.h and holds.h say. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "churn.h"
#include "holds.h"
#include "udp.h"

#define WRITERS 2
#define WORDS_OF_PAGE 512

static uint64_t *memory;
static size_t words, steady;
static uint64_t seed;
static atomic_ulong rounds[WRITERS];
static atomic_long wrong = -1;

static uint64_t word(size_t i) { return (i + seed) * 0x9E3779B97F4A7C15ull; }

static void *write_part(void *which) {
  size_t number = (size_t)which, part = (words - steady) / WRITERS;
  uint64_t *mine = memory + steady + number * part;
  for (unsigned long round = 0;; round++) {
    for (size_t i = 0; i < part; i += WORDS_OF_PAGE) {
      if (mine[i] != round) atomic_store(&wrong, (long)((mine + i - memory) * sizeof *mine));
      mine[i] = round + 1;
    }
    atomic_store(&rounds[number], round + 1);
    usleep(1000);
  }
  return NULL;
}

static void verify(char *reply) {
  for (size_t i = 0; i < steady; i++)
    if (memory[i] != word(i)) atomic_store(&wrong, (long)(i * sizeof *memory));
  snprintf(reply, ANSWER_SIZE, "ok %zu bytes", steady * sizeof *memory);
}

static void answer(const char *request, char *reply) {
  if (hold(request, reply) || churn_answer(request, reply)) return;
  if (strcmp(request, "where") == 0) {
    snprintf(reply, ANSWER_SIZE, "%lx %zu", (unsigned long)memory, words * sizeof *memory);
    return;
  }
  if (strcmp(request, "verify") == 0) verify(reply);
  else snprintf(reply, ANSWER_SIZE, "%lu", atomic_load(&rounds[0]) + atomic_load(&rounds[1]));
  long at = atomic_load(&wrong);
  if (at >= 0) snprintf(reply, ANSWER_SIZE, "bad at %ld", at);
}

static int holder(const struct options *options) {
  size_t bytes = (size_t)(options->mebibytes < 0 ? 16 : options->mebibytes) << 20;
  memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  words = bytes / sizeof *memory;
  steady = words / 4 * 3;
  seed = options->seed;
  for (size_t i = 0; i < steady; i++) memory[i] = word(i);
  for (size_t i = 0; i < WRITERS; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, write_part, (void *)i) != 0) return 1;
  }
  return serve(options, answer);
}

int main(int argc, char **argv) {
  struct options options = parse_options(argc, argv);
  return run(&options, holder);
}
