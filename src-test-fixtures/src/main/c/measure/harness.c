#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int targets_outlive_us;

const char *const verb_names[] = {"lock", "checkpoint", "restore", "unlock"};

double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void sleep_for(double time) {
  struct timespec t = {(time_t)time, (long)((time - (double)(time_t)time) * 1e9)};
  while (nanosleep(&t, &t) != 0 && errno == EINTR) continue;
}

size_t bytes_of(const char *text) {
  char *end;
  double number = strtod(text, &end);
  return (size_t)(number * (*end == 'g' ? 1 << 30 : *end == 'm' ? 1 << 20 : *end == 'k' ? 1 << 10 : 1));
}

void harness_start(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  cuda_load();
}

/* The target's arguments, in place: BOARD and then the options. */
static void run_target(const char *directory, const char *options) {
  char program[512], board[600], log[600], text[1024], *arguments[24];
  int count = 0;
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 8);
  if (length < 0) _exit(127);
  program[length] = 0;
  strcpy(strrchr(program, '/') + 1, "target");
  snprintf(board, sizeof board, "%s/board", directory);
  snprintf(log, sizeof log, "%s/log", directory);
  snprintf(text, sizeof text, "%s", options);
  arguments[count++] = program;
  arguments[count++] = board;
  for (char *o = strtok(text, " "); o != NULL && count < 23; o = strtok(NULL, " ")) arguments[count++] = o;
  arguments[count] = NULL;
  setsid();
  if (!targets_outlive_us) prctl(PR_SET_PDEATHSIG, SIGKILL);
  int in = open("/dev/null", O_RDONLY), out = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
  if (in < 0 || out < 0) _exit(127);
  dup2(in, 0);
  dup2(out, 1);
  dup2(out, 2);
  for (int fd = 3; fd < 256; fd++) close(fd);
  if (chdir(directory) != 0) _exit(127);
  execv(program, arguments);
  _exit(127);
}

static void tell_log(const struct target *target) {
  char path[600], line[300];
  snprintf(path, sizeof path, "%s/log", target->directory);
  FILE *log = fopen(path, "r");
  while (log != NULL && fgets(line, sizeof line, log) != NULL) printf("    target: %s", line);
  if (log != NULL) fclose(log);
}

int target_start(struct target *target, const char *options) {
  static int number;
  const char *work = getenv("MEASURE_WORK");
  char path[600];
  memset(target, 0, sizeof *target);
  snprintf(target->directory, sizeof target->directory, "%s/target-%d-%d", work == NULL ? "/tmp" : work, getpid(),
           number++);
  snprintf(path, sizeof path, "%s/board", target->directory);
  mkdir(target->directory, 0700);
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof *target->board) != 0) {
    printf("  cannot make %s: %s\n", path, strerror(errno));
    return 0;
  }
  target->board = mmap(NULL, sizeof *target->board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (target->board == MAP_FAILED) return 0;
  fflush(stdout);
  target->pid = fork();
  if (target->pid == 0) run_target(target->directory, options);
  for (double end = seconds() + 60; atomic_load(&target->board->answered) == 0;) {
    if (!target_lives(target) || seconds() > end) {
      printf("  target %s did not start: %s\n", options, target->ended ? target_end(target) : "no answer in 60 s");
      tell_log(target);
      target_stop(target);
      return 0;
    }
    sleep_for(0.001);
  }
  return 1;
}

const char *target_ask(struct target *target, const char *command, double limit) {
  struct board *board = target->board;
  uint32_t question = atomic_load(&board->answered) + 1;
  snprintf(board->command, sizeof board->command, "%s", command);
  atomic_store(&board->asked, question);
  for (double end = seconds() + limit; atomic_load(&board->answered) != question;) {
    if (!target_lives(target) || seconds() > end) return NULL;
    sleep_for(0.001);
  }
  return board->answer;
}

int target_lives(struct target *target) {
  if (target->ended || target->pid <= 0) return 0;
  if (waitpid(target->pid, &target->status, WNOHANG) == target->pid) target->ended = 1;
  return !target->ended;
}

const char *target_end(const struct target *target) {
  static char text[64];
  if (!target->ended) return "alive";
  int status = target->status;
  if (WIFSIGNALED(status)) snprintf(text, sizeof text, "killed by SIG%s", sigabbrev_np(WTERMSIG(status)));
  else snprintf(text, sizeof text, "exit %d", WEXITSTATUS(status));
  return text;
}

void target_stop(struct target *target) {
  if (target_lives(target)) {
    kill(target->pid, SIGKILL);
    double end = seconds() + 20;
    while (target_lives(target) && seconds() < end) sleep_for(0.002);
    if (!target->ended) printf("  target %d does not die\n", target->pid);
  }
  if (target->board != NULL && target->board != MAP_FAILED) munmap(target->board, sizeof *target->board);
  target->board = NULL;
  char command[700];
  snprintf(command, sizeof command, "rm -rf '%s'", target->directory);
  if (target->directory[0] != 0 && system(command) != 0) printf("  %s stays\n", target->directory);
}

static const int during[] = {LOCKING, CHECKPOINTING, RESTORING, UNLOCKING};
static const int after[] = {LOCKED, CHECKPOINTED, RESTORED, RUNNING};

struct outcome act(struct target *target, enum verb verb, unsigned timeout_ms) {
  CUcheckpointLockArgs lock = {.timeoutMs = timeout_ms};
  struct outcome outcome;
  int before = atomic_load(&target->board->phase);
  atomic_store(&target->board->phase, during[verb]);
  double begin = seconds();
  switch (verb) {
    case LOCK: outcome.result = cuda.lock(target->pid, &lock); break;
    case CHECKPOINT: outcome.result = cuda.checkpoint(target->pid, NULL); break;
    case RESTORE: outcome.result = cuda.restore(target->pid, NULL); break;
    default: outcome.result = cuda.unlock(target->pid, NULL);
  }
  outcome.seconds = seconds() - begin;
  atomic_store(&target->board->phase, outcome.result == 0 ? after[verb] : before);
  return outcome;
}

static int both(struct target *target, enum verb first, enum verb second, struct outcome *timed, int timed_is_second) {
  enum verb verbs[] = {first, second};
  for (int i = 0; i < 2; i++) {
    struct outcome outcome = act(target, verbs[i], 10000);
    if (i == timed_is_second && timed != NULL) *timed = outcome;
    if (outcome.result == 0) continue;
    printf("  %s answered %s after %.3f s; state %s; target %s\n", verb_names[verbs[i]], result_name(outcome.result),
           outcome.seconds, state_name(target->pid), target_lives(target) ? "alive" : target_end(target));
    return 0;
  }
  return 1;
}

int suspend(struct target *target, struct outcome *checkpoint) { return both(target, LOCK, CHECKPOINT, checkpoint, 1); }

int resume(struct target *target, struct outcome *restore) { return both(target, RESTORE, UNLOCK, restore, 0); }

const char *state_name(int pid) {
  static _Thread_local char texts[4][64];
  static _Thread_local int next;
  char *text = texts[next++ % 4];
  static const char *names[] = {"RUNNING", "LOCKED", "CHECKPOINTED", "FAILED", "CHECKPOINTING", "RESTORING"};
  CUprocessState state = 0;
  int result = cuda.get_state(pid, &state);
  if (result != 0) snprintf(text, sizeof texts[0], "(%s)", result_name(result));
  else snprintf(text, sizeof texts[0], "%s", state < 6 ? names[state] : "?");
  return text;
}

static int nvml_open(nvmlDevice_t *device) {
  return (nvml.init != NULL || nvml_load()) && nvml.init() == 0 && nvml.device(0, device) == 0;
}

static long long gpu_memory(int want_free) {
  nvmlDevice_t device;
  nvmlMemory_t memory = {0};
  if (!nvml_open(&device)) return -1;
  int result = nvml.memory(device, &memory);
  nvml.shutdown();
  return result != 0 ? -1 : (long long)(want_free ? memory.free : memory.used);
}

long long gpu_used(void) { return gpu_memory(0); }

long long gpu_free(void) { return gpu_memory(1); }

long long gpu_used_by(int pid) {
  nvmlDevice_t device;
  nvmlProcessInfo_t list[64];
  unsigned count = 64;
  long long used = -1;
  if (!nvml_open(&device)) return -1;
  if (nvml.processes(device, &count, list) == 0)
    for (unsigned i = 0; i < count && i < 64; i++)
      if ((int)list[i].pid == pid) used = (long long)list[i].usedGpuMemory;
  nvml.shutdown();
  return used;
}

size_t host_available(void) {
  char line[128];
  size_t kib = 0;
  FILE *file = fopen("/proc/meminfo", "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    if (sscanf(line, "MemAvailable: %zu", &kib) == 1) break;
  if (file != NULL) fclose(file);
  return kib << 10;
}
