/* What every report has: attributes that each process has, whether they were set or not. */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attributes.h"

#ifndef PR_GET_MDWE
#define PR_GET_MDWE 66
#endif
#ifndef PR_GET_MEMORY_MERGE
#define PR_GET_MEMORY_MERGE 68
#endif
#ifndef PR_GET_IO_FLUSHER
#define PR_GET_IO_FLUSHER 58
#endif

static long by_pointer(int option) {
  int value = 0;
  return prctl(option, &value) < 0 ? -errno : value;
}

static long by_result(int option) {
  long value = prctl(option, 0, 0, 0, 0);
  return value < 0 ? -errno : value;
}

static void tell_controls(void) {
  char name[17] = "";
  prctl(PR_GET_NAME, name);
  tell("name %s", name);
  tell("parent-death %ld", by_pointer(PR_GET_PDEATHSIG));
  tell("subreaper %ld dumpable %ld keepcaps %ld securebits %ld", by_pointer(PR_GET_CHILD_SUBREAPER),
       by_result(PR_GET_DUMPABLE), by_result(PR_GET_KEEPCAPS), by_result(PR_GET_SECUREBITS));
  tell("no-new-privs %ld timer-slack %ld huge-pages-off %ld", by_result(PR_GET_NO_NEW_PRIVS), by_result(PR_GET_TIMERSLACK),
       by_result(PR_GET_THP_DISABLE));
  tell("write-exec-denied %ld", by_result(PR_GET_MDWE));
  tell("memory merge %ld", by_result(PR_GET_MEMORY_MERGE));
  tell("io-flusher %ld", by_result(PR_GET_IO_FLUSHER));
  tell("speculation %d %d", prctl(PR_GET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, 0, 0, 0),
       prctl(PR_GET_SPECULATION_CTRL, PR_SPEC_INDIRECT_BRANCH, 0, 0, 0));
  tell("personality %x", personality(0xffffffff));
}

static void tell_scheduling(void) {
  struct sched_param priority = {0};
  sched_getparam(0, &priority);
  tell("scheduler %d %d nice %d io %ld", sched_getscheduler(0), priority.sched_priority, getpriority(PRIO_PROCESS, 0),
       syscall(SYS_ioprio_get, 1, 0));
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  tell("processors %d first %d", CPU_COUNT(&set), CPU_ISSET(0, &set));
  int policy = -1;
  unsigned long nodes[16] = {0};
  long result = syscall(SYS_get_mempolicy, &policy, nodes, 1024L, NULL, 0L);
  tell("memory policy %s %d %lx", outcome(result), policy, nodes[0]);
  tell("oom %s", first_line("/proc/self/oom_score_adj"));
}

/* Lines of /proc/self/status that are attributes; without /proc (another root or pid namespace) they are left out. */
static void tell_status(void) {
  static const char *const KEYS[] = {"Umask:",  "Uid:",    "Gid:",    "Groups:", "SigPnd:", "ShdPnd:", "SigBlk:",     "SigIgn:",
                                     "SigCgt:", "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:", "NoNewPrivs:", "Seccomp:",
                                     "Threads:"};
  FILE *file = fopen("/proc/self/status", "re");
  char *line = NULL;
  size_t size = 0;
  while (file && getline(&line, &size, file) > 0)
    for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++)
      if (strncmp(line, KEYS[i], strlen(KEYS[i])) == 0) {
        for (char *at = line; *at; at++)
          if (*at == '\t' || *at == '\n') *at = ' ';
        tell("%.1500s", line);
      }
  free(line);
  if (file) fclose(file);
}

static void tell_limits(void) {
  for (int kind = 0; kind < (int)RLIMIT_NLIMITS; kind++) {
    struct rlimit limit = {0};
    getrlimit(kind, &limit);
    tell("limit %d %lx %lx", kind, (unsigned long)limit.rlim_cur, (unsigned long)limit.rlim_max);
  }
}

/* O_DIRECTORY, and O_TMPFILE which has it, say how a file was opened: the open file does not depend on them. */
static void tell_descriptor(int number) {
  struct stat state;
  fstat(number, &state);
  bool regular = S_ISREG(state.st_mode);
  tell("descriptor %d kind %o flags %x %x at %ld links %d", number, state.st_mode & S_IFMT, fcntl(number, F_GETFL) & ~O_TMPFILE,
       fcntl(number, F_GETFD), regular ? (long)lseek(number, 0, SEEK_CUR) : 0, regular ? (int)state.st_nlink > 0 : 0);
}

/* The driver closes and opens its own during a checkpoint, by any number. */
static bool is_of_driver(int number) {
  char path[64], name[256] = "";
  snprintf(path, sizeof path, "/proc/self/fd/%d", number);
  return readlink(path, name, sizeof name - 1) > 0 && strstr(name, "nvidia");
}

static void tell_descriptors(void) {
  for (int number = 0; number < 2048; number++)
    if (fcntl(number, F_GETFD) >= 0 && !is_of_driver(number)) tell_descriptor(number);
}

static void tell_place(void) {
  char path[4096] = "";
  ssize_t length = readlink("/proc/self/cwd", path, sizeof path - 1);
  tell("directory %.*s", length < 0 ? 0 : (int)length, path);
  stack_t stack = {0};
  sigaltstack(NULL, &stack);
  tell("signal stack %x %zu", stack.ss_flags, stack.ss_flags & SS_DISABLE ? 0 : stack.ss_size);
  tell("session leader %d group leader %d", getsid(0) == getpid(), getpgrp() == getpid());
}

void tell_common(void) {
  tell_controls();
  tell_scheduling();
  tell_status();
  tell_limits();
  tell_descriptors();
  tell_place();
}
