/* The process that is measured: GPU memory with known contents, and what the arguments name.
 *
 *   target BOARD [gpu=SIZE[,SIZE...]] [empty=SIZE] [idle=N] [decoy=SIZE] [threads=KIND[,KIND]] [quiet=1]
 *          [nvml=keep|shutdown|poll] [handler=0]
 *
 * gpu      allocations that are filled, verified by the command of that name;  empty: one that is not
 * idle     threads that wait without end, whose system calls a controller may borrow
 * decoy    ordinary private memory, written
 * threads  see workers.h;  handler=0: a fault kills the process
 *
 * It waits for commands on the board: verify EVERY, spin MS, empty BYTES, quiet, memory, nvml,
 * exit. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pattern.h"
#include "workers.h"

static const char ptx[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry spin(.param .u64 nanoseconds)\n{\n"
    "  .reg .pred %p<2>;\n  .reg .u64 %rd<5>;\n"
    "  ld.param.u64 %rd1, [nanoseconds];\n"
    "  mov.u64 %rd2, %globaltimer;\n"
    "again:\n"
    "  mov.u64 %rd3, %globaltimer;\n"
    "  sub.u64 %rd4, %rd3, %rd2;\n"
    "  setp.lt.u64 %p1, %rd4, %rd1;\n"
    "  @%p1 bra again;\n"
    "  ret;\n}\n";

static struct board *board;
static CUcontext context;
static CUfunction spin;
static int nvml_held;

static size_t size_of(const char *text, char **end) {
  double number = strtod(text, end);
  if (**end == 'k') number *= 1 << 10;
  if (**end == 'm') number *= 1 << 20;
  if (**end == 'g') number *= 1 << 30;
  if (**end == 'k' || **end == 'm' || **end == 'g') ++*end;
  return (size_t)number;
}

static void *idle(void *number) {
  char name[16];
  snprintf(name, sizeof name, "idle-%d", (int)(intptr_t)number);
  prctl(PR_SET_NAME, name);
  board->idle_tid[(intptr_t)number] = (int)syscall(SYS_gettid);
  for (;;) pause();
  return NULL;
}

static void start_idle(int count) {
  for (intptr_t i = 0; i < count && i < IDLERS; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, idle, (void *)i);
    while (*(volatile int *)&board->idle_tid[i] == 0) usleep(100);
  }
  board->idlers = count;
}

static void start_decoy(size_t bytes) {
  char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(memory, 1, bytes);
  board->decoy = (uint64_t)(uintptr_t)memory;
  board->decoy_length = bytes;
}

static void start_nvml(const char *how) {
  if (!nvml_load() || nvml.init() != 0) {
    fprintf(stderr, "NVML does not start\n");
    exit(4);
  }
  nvml_held = 1;
  nvmlDevice_t device;
  nvmlMemory_t memory;
  if (nvml.device(0, &device) == 0) nvml.memory(device, &memory);
  if (strcmp(how, "shutdown") == 0) {
    nvml.shutdown();
    nvml_held = 0;
  }
  if (strcmp(how, "poll") == 0) worker_start(board, "nvml");
}

static void start(const char *option) {
  char *end = (char *)option;
  if (strncmp(option, "gpu=", 4) == 0)
    for (const char *p = option + 4; *p != 0; p = *end == ',' ? end + 1 : end) pattern_add(size_of(p, &end), 0);
  else if (strncmp(option, "empty=", 6) == 0) pattern_add(size_of(option + 6, &end), 1);
  else if (strncmp(option, "idle=", 5) == 0) start_idle(atoi(option + 5));
  else if (strncmp(option, "decoy=", 6) == 0) start_decoy(size_of(option + 6, &end));
  else if (strncmp(option, "nvml=", 5) == 0) start_nvml(option + 5);
  else if (strcmp(option, "quiet=1") == 0) quiet_start();
  else if (strcmp(option, "handler=0") == 0) board->wait_in_handler = 0;
  else if (strncmp(option, "threads=", 8) == 0) {
    char kinds[64];
    snprintf(kinds, sizeof kinds, "%s", option + 8);
    for (char *kind = strtok(kinds, ","); kind != NULL; kind = strtok(NULL, ",")) worker_start(board, kind);
  } else {
    fprintf(stderr, "unknown option %s\n", option);
    exit(2);
  }
}

static void load_spin(void) {
  CUmodule module;
  if (spin != NULL) return;
  must(cuda.module_load(&module, ptx), "cuModuleLoadData");
  must(cuda.module_function(&spin, module, "spin"), "cuModuleGetFunction");
}

static void obey(const char *command, char *answer) {
  strcpy(answer, "ok");
  if (strncmp(command, "verify", 6) == 0) {
    pattern_verify(context, (unsigned)atoi(command + 6), answer);
  } else if (strncmp(command, "spin ", 5) == 0) {
    uint64_t nanoseconds = strtoull(command + 5, NULL, 10) * 1000000u;
    void *arguments[] = {&nanoseconds};
    load_spin();
    must(cuda.launch(spin, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL), "cuLaunchKernel");
  } else if (strncmp(command, "empty ", 6) == 0) {
    pattern_add(strtoull(command + 6, NULL, 10), 1);
  } else if (strcmp(command, "quiet") == 0) {
    quiet_check(answer);
  } else if (strcmp(command, "memory") == 0) {
    size_t free = 0, total = 0;
    must(cuda.memory_info(&free, &total), "cuMemGetInfo");
    snprintf(answer, TEXT, "%zu %zu", free, total);
  } else if (strcmp(command, "nvml") == 0) {
    nvmlDevice_t device;
    nvmlMemory_t memory;
    if (!nvml_held) snprintf(answer, TEXT, "not initialised");
    else snprintf(answer, TEXT, "answers %d", nvml.device(0, &device) != 0 ? -1 : nvml.memory(device, &memory));
  } else if (strcmp(command, "exit") == 0) {
    exit(0);
  } else {
    snprintf(answer, TEXT, "unknown command");
  }
}

int main(int argc, char **argv) {
  int fd = argc < 2 ? -1 : open(argv[1], O_RDWR);
  if (fd < 0) {
    fprintf(stderr, "usage: target BOARD [OPTION...]\n");
    return 2;
  }
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (board == MAP_FAILED) return 2;
  board->wait_in_handler = 1;
  cuda_load();
  context = cuda_start();
  for (int i = 2; i < argc; i++) start(argv[i]);
  snprintf(board->answer, sizeof board->answer, "ready");
  for (uint32_t served = 0;;) {
    atomic_store(&board->answered, ++served);
    while (atomic_load(&board->asked) <= served) usleep(1000);
    obey(board->command, board->answer);
  }
}
