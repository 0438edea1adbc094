#include "churn.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "udp.h"

#define MIB (1ul << 20)
#define AREA (256 * MIB)
#define OWN (4 * MIB)
#define STACK 65536
#define STEP 512 /* a word of each page */
#define KEPT 8
#define MPOL_BIND 2

static const char *volatile wrong; /* what was */
static atomic_ulong rounds;

static void expect(bool right, const char *what) {
  if (!right) wrong = what;
}

static uint64_t word(uint64_t seed, size_t i) { return (seed + 1) * 0x9e3779b97f4a7c15ull ^ i; }

static void fill(uint64_t *words, size_t size, uint64_t seed) {
  for (size_t i = 0; i < size / sizeof *words; i += STEP) words[i] = word(seed, i);
}

static bool is_filled(const uint64_t *words, size_t size, uint64_t seed) {
  for (size_t i = 0; i < size / sizeof *words; i += STEP)
    if (words[i] != word(seed, i)) return false;
  return true;
}

static void *map(void *at, size_t size, int flags) {
  void *made = mmap(at, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS | (at == NULL ? 0 : MAP_FIXED), -1, 0);
  if (made != MAP_FAILED) return made;
  wrong = "mmap";
  return NULL;
}

/* What is written at one address is to be read at the other. */
static bool is_shared(uint64_t *one, uint64_t *other, size_t size, uint64_t seed) {
  fill(one, size, seed);
  bool there = is_filled(other, size, seed);
  fill(other, size, seed + 1);
  return there && is_filled(one, size, seed + 1);
}

static void *second_address(void *shared, size_t size) {
  void *at = mremap(shared, 0, size, MREMAP_MAYMOVE);
  if (at != MAP_FAILED) return at;
  wrong = "mremap";
  return NULL;
}

/* Errno and all other memory of the thread's own is the parent's in a child that has its memory. */
static long bare(long number, long first, long second) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(first), "S"(second) : "rcx", "r11", "memory");
  return result;
}

static void bare_sleep(long nanoseconds) {
  struct timespec time = {.tv_nsec = nanoseconds};
  bare(SYS_nanosleep, (long)&time, 0);
}

/* The area */

static uint64_t *area, *area_again;
static size_t area_size;
static uint64_t area_seed = 1;
static volatile bool written; /* by a child */

static void area_private(size_t size) {
  area_size = size;
  if (map(area, size, MAP_PRIVATE) != NULL) fill(area, size, area_seed);
}

static void area_shared(void) {
  if (map(area, area_size, MAP_SHARED) != NULL) area_again = second_address(area, area_size);
}

/* Counts in the last word of each page, and finds there what it counted. */
static int write_area(void *unused) {
  (void)unused;
  bare(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
  for (uint64_t count = 0;; count++) {
    for (size_t i = STEP - 1; i < area_size / sizeof *area; i += STEP) {
      volatile uint64_t *last = area + i;
      if (*last != count) wrong = "a word that a child has written";
      *last = count + 1;
    }
    written = true;
    bare_sleep(1000000);
  }
  return 0;
}

static pid_t begin_writer(void) {
  char *stack = map(NULL, STACK, MAP_PRIVATE);
  pid_t child = stack == NULL ? -1 : clone(write_area, stack + STACK, CLONE_VM | CLONE_PARENT | SIGCHLD, NULL);
  while (child > 0 && !written) sched_yield();
  return child;
}

static pid_t begin_worker(void) {
  pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (is_filled(area, area_size, area_seed)) usleep(1000);
  _exit(1);
}

static bool area_answer(const char *request, char *reply) {
  unsigned long mebibytes = 0;
  strcpy(reply, "ok");
  if (area == NULL) area = mmap(NULL, AREA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (strcmp(request, "where") == 0) {
    snprintf(reply, ANSWER_SIZE, "%lx", (unsigned long)area);
  } else if (sscanf(request, "private %lu", &mebibytes) == 1) {
    area_private(mebibytes * MIB);
  } else if (strcmp(request, "shared") == 0) {
    area_shared();
  } else if (strcmp(request, "policy") == 0) {
    unsigned long first = 1;
    if (syscall(SYS_mbind, area, area_size, MPOL_BIND, &first, 64, 0) != 0)
      snprintf(reply, ANSWER_SIZE, "error: %s", strerror(errno));
  } else if (strcmp(request, "gone") == 0) {
    expect(mmap(area, area_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == area, "mmap");
    area_size = 0;
  } else if (strcmp(request, "writer") == 0) {
    snprintf(reply, ANSWER_SIZE, "%d", (int)begin_writer());
  } else if (strcmp(request, "worker") == 0) {
    snprintf(reply, ANSWER_SIZE, "%d", (int)begin_worker());
  } else {
    return false;
  }
  return true;
}

static void look_at_area(void) {
  if (area_again == NULL) {
    expect(is_filled(area, area_size, area_seed), "the private area");
  } else {
    expect(is_shared(area, area_again, area_size, area_seed), "the shared area");
    area_seed += 2;
  }
}

/* The threads */

static void rest(long most_microseconds) { usleep((useconds_t)(random() % most_microseconds)); }

static uint64_t *own;

static void share(uint64_t round) {
  if (map(own, OWN, MAP_PRIVATE) == NULL) return;
  fill(own, OWN, round);
  rest(40000);
  expect(is_filled(own, OWN, round), "private memory");
  if (map(own, OWN, MAP_SHARED) == NULL) return;
  uint64_t *again = second_address(own, OWN);
  for (int i = 0; again != NULL && i < 8; i++) {
    expect(is_shared(own, again, OWN, round + i), "shared memory");
    rest(10000);
  }
  if (again != NULL) munmap(again, OWN);
}

static void map_and_unmap(uint64_t round) {
  size_t size = (1 + (size_t)random() % 8) * MIB;
  uint64_t *mine = map(NULL, size, MAP_PRIVATE);
  if (mine == NULL) return;
  fill(mine, size, round);
  rest(5000);
  expect(is_filled(mine, size, round), "memory that is soon unmapped");
  munmap(mine, size);
}

static void keep(uint64_t round) {
  static uint64_t *kept[KEPT];
  size_t next = round % KEPT;
  if (kept[next] != NULL) munmap(kept[next], OWN);
  if ((kept[next] = map(NULL, OWN, MAP_PRIVATE)) == NULL) return;
  fill(kept[next], OWN, next);
  rest(20000);
  for (size_t i = 0; i < KEPT; i++)
    if (kept[i] != NULL) expect(is_filled(kept[i], OWN, i), "memory that is kept");
}

static void await_child(pid_t child, const char *what) {
  int status;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return;
  /* The child dies with its parent, or when the tree is killed. */
  expect(WIFSIGNALED(status) || WEXITSTATUS(status) == 0, what);
}

static void fork_child(uint64_t round) {
  long microseconds = random() % 20000;
  fill(own, OWN, round);
  pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    usleep((useconds_t)microseconds);
    _exit(is_filled(own, OWN, round) ? 0 : 1);
  }
  if (child > 0) await_child(child, "the memory of a forked child");
  rest(20000);
}

static int write_own(void *of_round) {
  uint64_t round = (uint64_t)of_round;
  bare(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
  for (uint64_t i = 0; i < 20; i++) {
    if (!is_filled(own, OWN, round + i)) return 1;
    fill(own, OWN, round + i + 1);
    bare_sleep(500000);
  }
  return 0;
}

static void clone_child(uint64_t round) {
  static char *stack;
  if (stack == NULL) stack = map(NULL, STACK, MAP_PRIVATE);
  fill(own, OWN, round);
  pid_t child = clone(write_own, stack + STACK, CLONE_VM | SIGCHLD, (void *)round);
  if (child > 0) await_child(child, "the memory that a child writes");
  rest(60000);
}

static const struct {
  const char *name;
  void (*once)(uint64_t round);
} KINDS[] = {{"shared", share}, {"map", map_and_unmap}, {"keep", keep}, {"fork", fork_child}, {"clone", clone_child}};

static void *churn(void *which) {
  for (uint64_t round = 0;; round++) {
    KINDS[(size_t)which].once(round);
    atomic_store(&rounds, round + 1);
  }
  return NULL;
}

static bool begin_churn(const char *kind, char *reply) {
  pthread_t thread;
  for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
    if (strcmp(kind, KINDS[i].name) != 0) continue;
    own = map(NULL, OWN, MAP_PRIVATE);
    bool begun = own != NULL && pthread_create(&thread, NULL, churn, (void *)i) == 0;
    strcpy(reply, begun ? "ok" : "error it did not begin");
    return true;
  }
  return false;
}

bool churn_answer(const char *request, char *reply) {
  if (strncmp(request, "area ", 5) == 0) return area_answer(request + 5, reply);
  if (strncmp(request, "churn ", 6) == 0) return begin_churn(request + 6, reply);
  if (strcmp(request, "churned") != 0) return false;
  look_at_area();
  if (wrong == NULL) snprintf(reply, ANSWER_SIZE, "ok %lu", atomic_load(&rounds));
  else snprintf(reply, ANSWER_SIZE, "bad: %s", wrong);
  return true;
}
