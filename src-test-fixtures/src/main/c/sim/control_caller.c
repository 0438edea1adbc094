/* The caller's side of the control path, see control_target.c. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "call_file.h"
#include "control.h"

/* A short pause first: a target that dies at once is noticed at once. */
#define FIRST_LOOK_NS 1000000
#define LATER_LOOKS_NS 20000000

static ssize_t read_small(const char *path, char *text, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t length = read(fd, text, size - 1);
  close(fd);
  text[length > 0 ? length : 0] = '\0';
  return length;
}

/* Whether the thread bears the control thread's name. Asked before every signal: to another it would be fatal. */
static bool is_control_thread(int pid, int tid) {
  char path[64], text[32];
  const char *wanted = machine()->control_name;
  size_t length = strlen(wanted);
  snprintf(path, sizeof path, "/proc/%d/task/%d/comm", pid, tid);
  return read_small(path, text, sizeof text) > 0 && strncmp(text, wanted, length) == 0 && text[length] == '\n';
}

/* The process that the number belongs to: it may be any thread's, as with the driver. */
static int process_of(int tid) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%d/status", tid);
  if (read_small(path, text, sizeof text) <= 0) return -1;
  const char *line = strstr(text, "\nTgid:");
  return line == NULL ? -1 : atoi(line + 6);
}

static int search_thread(int pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *tasks = opendir(path);
  if (tasks == NULL) return -1;
  int found = 0;
  const struct dirent *task;
  while (found == 0 && (task = readdir(tasks)) != NULL) {
    int tid = atoi(task->d_name);
    if (tid > 0 && is_control_thread(pid, tid)) found = tid;
  }
  closedir(tasks);
  return found;
}

struct target {
  int process;
  int thread; /* > 0; 0: the process has none, as also a zombie; -1: there is no such process */
};

static struct target find_target(int pid) {
  static __thread int last_pid;
  static __thread struct target last;
  if (pid != last_pid || !is_control_thread(last.process, last.thread)) {
    last_pid = pid;
    last = (struct target){process_of(pid), search_thread(pid)};
  }
  return last;
}

static bool queue_signal(struct target target, unsigned id) {
  siginfo_t info;
  memset(&info, 0, sizeof info);
  info.si_code = SI_QUEUE;
  info.si_pid = getpid();
  info.si_uid = getuid();
  info.si_value.sival_int = (int)id;
  return syscall(SYS_rt_tgsigqueueinfo, target.process, target.thread, CONTROL_SIGNAL, &info) == 0;
}

static bool is_done(const struct control_call *shared) {
  return __atomic_load_n(&shared->done, __ATOMIC_ACQUIRE) != 0;
}

static void await_for(struct control_call *shared, long nanoseconds) {
  struct timespec limit = {.tv_nsec = nanoseconds};
  if (!is_done(shared)) syscall(SYS_futex, &shared->done, FUTEX_WAIT, 0, &limit, NULL, 0);
}

/* Waits without a limit, also for a stopped target, as the driver does. `dead` becomes readable when the target ends. */
static CUresult await(struct control_call *shared, int dead) {
  struct pollfd end = {.fd = dead, .events = POLLIN};
  await_for(shared, FIRST_LOOK_NS);
  while (!is_done(shared) && poll(&end, 1, 0) != 1) await_for(shared, LATER_LOOKS_NS);
  return is_done(shared) ? shared->result : CUDA_ERROR_OPERATING_SYSTEM;
}

static uint32_t next_serial(void) {
  static uint32_t last;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now); /* a caller in an image comes back with what it counted up to */
  return (uint32_t)now.tv_nsec ^ (__atomic_add_fetch(&last, 1, __ATOMIC_RELAXED) << 12) ^ (uint32_t)getpid();
}

/* Sends the call whose file is `fd`. */
static CUresult exchange(struct target target, int dead, int fd, unsigned id, struct control_call *call) {
  struct control_call *shared = mmap(NULL, sizeof *call, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (shared == MAP_FAILED) return CUDA_ERROR_OPERATING_SYSTEM;
  call->serial = next_serial();
  *shared = *call;
  CUresult result = queue_signal(target, id) ? await(shared, dead) : CUDA_ERROR_OPERATING_SYSTEM;
  call->value = shared->value;
  munmap(shared, sizeof *call);
  return result;
}

/* All that needs a descriptor comes before the signal: a caller without free descriptors makes no call, rather than to leave a call
 * that is being served. */
CUresult control_send(int pid, struct control_call *call) {
  if (pid <= 0) return CUDA_ERROR_OPERATING_SYSTEM;
  struct target target = find_target(pid);
  if (target.thread == 0) return CUDA_ERROR_NOT_INITIALIZED;
  if (target.thread < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  int dead = (int)syscall(SYS_pidfd_open, target.process, 0);
  if (dead < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  CUresult result = CUDA_ERROR_OPERATING_SYSTEM;
  unsigned id;
  int fd = is_control_thread(target.process, target.thread) ? call_file_open(&id) : -1;
  if (fd >= 0) {
    result = exchange(target, dead, fd, id, call);
    call_file_close(fd, id);
  }
  close(dead);
  return result;
}
