#include "workers.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { PINNED = 4 << 20, PAGE = 4096, QUIET = 1 << 20 };

static struct board *board;
static int started;
static _Thread_local struct worker *self;

static int phase(void) { return atomic_load(&board->phase); }

/* Notes the fault; then the thread waits until the process runs again and tries the same access again. */
static void on_fault(int signal, siginfo_t *info, void *context) {
  if (self == NULL) {
    static const char text[] = "fault in a thread that is not a worker\n";
    if (write(2, text, sizeof text - 1) < 0) _exit(9);
    sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    return;
  }
  int now = phase();
  if (atomic_fetch_add(&self->faults[now], 1) == 0 && self->first_fault.signal == 0)
    self->first_fault = (struct fault){signal, info->si_code,
                                       (int)(((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] >> 1 & 1), now,
                                       (uint64_t)(uintptr_t)info->si_addr};
  if (now == RUNNING && atomic_load(&self->faults[now]) > 1000)
    for (;;) pause(); /* for ever lost */
  while (phase() != RUNNING) usleep(500);
}

static void compare(const volatile uint64_t *word, uint64_t expected) {
  uint64_t found = *word;
  if (found == expected) return;
  if (atomic_fetch_add(&self->wrong, 1) == 0)
    self->first_wrong = (struct mismatch){phase(), (uint64_t)(uintptr_t)word, expected, found};
}

/* One word of each page holds the number of the pass that wrote it last. */
static void pinned_for_ever(void) {
  volatile uint64_t *words = (uint64_t *)(uintptr_t)self->at;
  size_t step = PAGE / 8;
  for (size_t i = 0; i < PINNED / 8; i += step) words[i] = i;
  for (uint64_t pass = 1;; pass++) {
    for (size_t i = 0; i < PINNED / 8; i += step) {
      compare(&words[i], i + (pass - 1));
      words[i] = i + pass;
    }
    atomic_fetch_add(&self->passes[phase()], 1);
  }
}

static unsigned random_below(unsigned bound) {
  static _Thread_local uint64_t state = 0x9E3779B97F4A7C15u;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (unsigned)(state >> 33) % bound;
}

static void write_pages(uint64_t at, uint64_t length) {
  for (uint64_t p = at; p < at + length; p += PAGE) *(volatile uint64_t *)(uintptr_t)p = ~p;
}

static void check_pages(uint64_t at, uint64_t length) {
  for (uint64_t p = at; p < at + length; p += PAGE) compare((volatile uint64_t *)(uintptr_t)p, ~p);
}

/* Holds up to SLOTS mappings of 4 KiB to 1 MiB; one in eight is of some MiB. */
static void map_for_ever(void) {
  for (;;) {
    struct slot *slot = &board->slots[random_below(SLOTS)];
    uint64_t at = atomic_load(&slot->at), length = atomic_load(&slot->length);
    if (length != 0) {
      check_pages(at, length);
      atomic_store(&slot->length, 0);
      munmap((void *)(uintptr_t)at, length);
    }
    length = (uint64_t)(random_below(8) == 0 ? 1 + random_below(1024) : 1 + random_below(64)) * PAGE;
    void *made = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) {
      snprintf(self->note, sizeof self->note, "mmap failed");
      continue;
    }
    atomic_store(&slot->at, (uint64_t)(uintptr_t)made);
    atomic_store(&slot->length, length);
    write_pages((uint64_t)(uintptr_t)made, length);
    atomic_fetch_add(&self->passes[phase()], 1);
  }
}

static void allocate_for_ever(void) {
  void *blocks[16] = {0};
  size_t sizes[16] = {0};
  for (;;) {
    unsigned i = random_below(16);
    uint64_t at = ((uint64_t)(uintptr_t)blocks[i] + PAGE - 1) / PAGE * PAGE;
    if (blocks[i] != NULL) check_pages(at, sizes[i]);
    free(blocks[i]);
    sizes[i] = (size_t)(1 + random_below(random_below(8) == 0 ? 16384 : 512)) * PAGE;
    blocks[i] = malloc(sizes[i] + PAGE);
    at = ((uint64_t)(uintptr_t)blocks[i] + PAGE - 1) / PAGE * PAGE;
    if (blocks[i] != NULL) write_pages(at, sizes[i]);
    atomic_fetch_add(&self->passes[phase()], 1);
  }
}

/* An answer other than success counts as wrong. */
static void ask_nvml_for_ever(void) {
  nvmlDevice_t device;
  if (nvml.device(0, &device) != 0 || nvml.utilization == NULL) return;
  for (;;) {
    unsigned rates[2];
    int now = phase(), result = nvml.utilization(device, rates);
    atomic_fetch_add(&self->passes[now], 1);
    if (result != 0 && atomic_fetch_add(&self->wrong, 1) == 0)
      self->first_wrong = (struct mismatch){now, 0, 0, (uint64_t)result};
    usleep(100000);
  }
}

static void *run(void *argument) {
  self = argument;
  stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
  sigaltstack(&stack, NULL);
  atomic_store(&self->tid, (int)syscall(SYS_gettid));
  if (strcmp(self->name, "mapper") == 0) map_for_ever();
  if (strcmp(self->name, "malloc") == 0) allocate_for_ever();
  if (strcmp(self->name, "nvml") == 0) ask_nvml_for_ever();
  if (self->at != 0) pinned_for_ever();
  for (;;) pause();
  return NULL;
}

static void cannot(const char *what) {
  fprintf(stderr, "%s is not there\n", what);
  exit(4);
}

void worker_start(struct board *shared, const char *kind) {
  board = shared;
  struct worker *worker = &board->workers[started++];
  void *memory = NULL;
  snprintf(worker->name, sizeof worker->name, "%s", kind);
  if (strcmp(kind, "pinned") == 0) {
    if (cuda.host_alloc == NULL) cannot("cuMemHostAlloc");
    must(cuda.host_alloc(&memory, PINNED, 0), "cuMemHostAlloc");
  } else if (strcmp(kind, "register") == 0) {
    if (cuda.host_register == NULL) cannot("cuMemHostRegister");
    memory = mmap(NULL, PINNED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(cuda.host_register(memory, PINNED, 0), "cuMemHostRegister");
  }
  if (memory != NULL) {
    worker->at = (uint64_t)(uintptr_t)memory;
    worker->length = PINNED;
  }
  if (board->wait_in_handler) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
  }
  pthread_t thread;
  pthread_create(&thread, NULL, run, worker);
}

static struct quiet {
  uint64_t *memory;
  CUdeviceptr device;
} quiet[2];

void quiet_start(void) {
  if (cuda.host_alloc == NULL || cuda.host_register == NULL || cuda.host_device == NULL) return;
  must(cuda.host_alloc((void **)&quiet[0].memory, QUIET, 0), "cuMemHostAlloc");
  quiet[1].memory = mmap(NULL, QUIET, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  must(cuda.host_register(quiet[1].memory, QUIET, 0), "cuMemHostRegister");
  for (int i = 0; i < 2; i++) {
    for (size_t w = 0; w < QUIET / 8; w++) quiet[i].memory[w] = w * 3 + (size_t)i;
    must(cuda.host_device(&quiet[i].device, quiet[i].memory, 0), "cuMemHostGetDevicePointer");
  }
}

/* The GPU's view: a copy on the GPU from the device address of the page-locked memory. */
void quiet_check(char *answer) {
  static const char *names[] = {"cuMemHostAlloc", "cuMemHostRegister"};
  char *out = answer;
  *out = 0;
  for (int i = 0; i < 2 && quiet[i].memory != NULL; i++) {
    size_t bad = 0, bad_seen = 0;
    CUdeviceptr copy = 0, device = 0;
    uint64_t *seen = malloc(QUIET);
    for (size_t w = 0; w < QUIET / 8; w++) bad += quiet[i].memory[w] != w * 3 + (size_t)i;
    int moved = cuda.host_device(&device, quiet[i].memory, 0) != 0 || device != quiet[i].device;
    int result = cuda.alloc(&copy, QUIET);
    if (result == 0) result = cuda.on_device(copy, quiet[i].device, QUIET);
    if (result == 0) result = cuda.to_host(seen, copy, QUIET);
    if (copy != 0) cuda.free(copy);
    for (size_t w = 0; w < QUIET / 8; w++) bad_seen += seen[w] != w * 3 + (size_t)i;
    free(seen);
    int fine = result == 0 && bad == 0 && bad_seen == 0 && !moved;
    out += snprintf(out, (size_t)(TEXT - (out - answer)), "%s%s: %s", i == 0 ? "" : "; ", names[i], fine ? "ok" : "");
    if (!fine)
      out += snprintf(out, (size_t)(TEXT - (out - answer)), "WRONG copy %s, cpu %zu, gpu %zu words, moved %d",
                      result_name(result), bad, bad_seen, moved);
  }
}
