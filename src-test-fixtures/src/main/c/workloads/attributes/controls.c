/* prctl, personality, scheduling and limits. Most are in the common part of the report. */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <fcntl.h>
#include <unistd.h>

#include "attributes.h"

#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE 67
#endif
#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

static void huge_pages_off(void) { may(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)); }
static void subreaper(void) { may(prctl(PR_SET_CHILD_SUBREAPER, 1)); }
static void not_dumpable(void) { may(prctl(PR_SET_DUMPABLE, 0)); }
static void timer_slack(void) { may(prctl(PR_SET_TIMERSLACK, 123456)); }
static void die_with_parent(void) { may(prctl(PR_SET_PDEATHSIG, SIGKILL)); }
static void keep_capabilities(void) { may(prctl(PR_SET_KEEPCAPS, 1)); }
static void merge_memory(void) { may(prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0)); }
static void flush(void) { may(prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0)); }
static void rename_thread(void) { may(prctl(PR_SET_NAME, "a name (with) 1 ")); }
static void fixed_addresses(void) { may(personality(ADDR_NO_RANDOMIZE)); }

static void signalled_by_parent(void) {
  signal(SIGUSR1, SIG_IGN);
  may(prctl(PR_SET_PDEATHSIG, SIGUSR1));
}

static void speculation(void) {
  may(prctl(PR_SET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, PR_SPEC_DISABLE, 0, 0));
}

static struct child *child;
static void tell_child(void) { ask_child(child); }

static void tell_parent_death(void) {
  int number = 0;
  prctl(PR_GET_PDEATHSIG, &number);
  tell("parent-death %d", number);
}

static void child_dies(void) { child = start_child(die_with_parent, tell_parent_death); }

static void memory_policy(void) {
  unsigned long nodes = 1;
  may(syscall(SYS_set_mempolicy, 2 /* MPOL_BIND */, &nodes, 64L));
}

static char *bound;

static void range_policy(void) {
  unsigned long nodes = 1;
  bound = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  may(syscall(SYS_mbind, bound, 1L << 16, 2L, &nodes, 64L, 0L));
  bound[0] = 1;
}

static void tell_range_policy(void) {
  int policy = -1;
  long result = syscall(SYS_get_mempolicy, &policy, NULL, 0L, bound, 2L /* MPOL_F_ADDR */);
  tell("policy %s %d", outcome(result), policy);
}

static void batch(void) { may(sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0})); }
static void idle(void) { may(sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0})); }
static void real_time(void) { may(sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 3})); }
static void reset_on_fork(void) {
  may(sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &(struct sched_param){0}));
}
static void be_nice(void) { may(setpriority(PRIO_PROCESS, 0, 7)); }
static void io_priority(void) { may(syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 6)); }

static void one_processor(void) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(0, &set);
  may(sched_setaffinity(0, sizeof set, &set));
}

static void oom_score(void) {
  int file = may(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  may(write(file, "123", 3));
  close(file);
}

static void core_filter(void) {
  int file = may(open("/proc/self/coredump_filter", O_WRONLY | O_CLOEXEC));
  may(write(file, "0x15", 4));
  close(file);
}
static void tell_core_filter(void) { tell("filter %s", first_line("/proc/self/coredump_filter")); }

static void register_barrier(void) { may(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0)); }
static void tell_barrier(void) { tell("barrier %s", outcome(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0))); }

/* As setproctitle does. */
static void change_title(void) {
  static char title[] = "own title";
  /* The end first if the text lies above the old one: the kernel refuses a start behind the end. */
  prctl(PR_SET_MM, PR_SET_MM_ARG_END, title + sizeof title, 0, 0);
  may(prctl(PR_SET_MM, PR_SET_MM_ARG_START, title, 0, 0));
  may(prctl(PR_SET_MM, PR_SET_MM_ARG_END, title + sizeof title, 0, 0));
}
static void tell_title(void) { tell("title %.40s", first_line("/proc/self/cmdline")); }

static void limit(int kind, rlim_t soft, rlim_t hard) { may(setrlimit(kind, &(struct rlimit){soft, hard})); }
static void few_descriptors(void) { limit(RLIMIT_NOFILE, 32, 64); }
/* The simulated driver has a sparse file of half of the largest size. */
static void small_files(void) { limit(RLIMIT_FSIZE, 0x7000000000000000, 0x7100000000000000); }
static void no_core(void) { limit(RLIMIT_CORE, 0, 12345678); }
static void small_stack(void) { limit(RLIMIT_STACK, 1 << 20, 1 << 22); }
static void small_space(void) { limit(RLIMIT_AS, 1L << 34, 1L << 35); }
static void few_processes(void) { limit(RLIMIT_NPROC, 900, 1000); }
static void no_locked_memory(void) { limit(RLIMIT_MEMLOCK, 4096, 8192); }
static void few_signals(void) { limit(RLIMIT_SIGPENDING, 20, 20); }
static void many_limits(void) {
  limit(RLIMIT_DATA, 1L << 38, 1L << 39);
  limit(RLIMIT_RTPRIO, 3, 4);
  limit(RLIMIT_NICE, 5, 6);
  limit(RLIMIT_MSGQUEUE, 7000, 8000);
  limit(RLIMIT_RTTIME, 900000000, 1000000000);
  limit(RLIMIT_RSS, 1L << 38, 1L << 39);
}
static void processor_time(void) { limit(RLIMIT_CPU, 5000, 6000); }

const struct attribute control_attributes[] = {
    {"thp-off", LATE, huge_pages_off, NULL},
    {"subreaper", EARLY, subreaper, NULL},
    {"not-dumpable", LATE, not_dumpable, NULL},
    {"timer-slack", EARLY, timer_slack, NULL},
    {"pdeathsig-kill", EARLY, die_with_parent, NULL},
    {"pdeathsig-ignored", EARLY, signalled_by_parent, NULL},
    {"child-pdeathsig", EARLY, child_dies, tell_child},
    {"keepcaps", EARLY, keep_capabilities, NULL},
    {"ksm", EARLY, merge_memory, NULL},
    {"io-flusher", EARLY, flush, NULL},
    {"speculation", EARLY, speculation, NULL},
    {"name", EARLY, rename_thread, NULL},
    {"personality", BEFORE_EXEC, fixed_addresses, NULL},
    {"numa-policy", EARLY, memory_policy, NULL},
    {"numa-range", EARLY, range_policy, tell_range_policy},
    {"sched-batch", EARLY, batch, NULL},
    {"sched-idle", EARLY, idle, NULL},
    {"sched-fifo", EARLY, real_time, NULL},
    {"sched-reset-on-fork", EARLY, reset_on_fork, NULL},
    {"nice", EARLY, be_nice, NULL},
    {"io-priority", EARLY, io_priority, NULL},
    {"affinity", EARLY, one_processor, NULL},
    {"oom-score", EARLY, oom_score, NULL},
    {"limit-nofile", LATE, few_descriptors, NULL},
    {"limit-fsize", LATE, small_files, NULL},
    {"limit-core", EARLY, no_core, NULL},
    {"limit-stack", EARLY, small_stack, NULL},
    {"limit-as", EARLY, small_space, NULL},
    {"limit-nproc", EARLY, few_processes, NULL},
    {"limit-memlock", LATE, no_locked_memory, NULL},
    {"limit-sigpending", EARLY, few_signals, NULL},
    {"limit-others", EARLY, many_limits, NULL},
    {"core-filter", EARLY, core_filter, tell_core_filter},
    {"membarrier", EARLY, register_barrier, tell_barrier},
    {"title", EARLY, change_title, tell_title},
    {"limit-cpu", EARLY, processor_time, NULL},
    {0},
};
