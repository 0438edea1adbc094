/* Shapes of the tree. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attributes.h"

static void tell_place(void) {
  tell("session %d group %d", getsid(0) == getpid(), getpgrp() == getpid());
}

static pid_t dead;
static void leave_zombie(void) {
  dead = may(fork());
  if (dead == 0) _exit(77);
  siginfo_t info;
  may(waitid(P_PID, dead, &info, WEXITED | WNOWAIT));
}
static void tell_zombie(void) {
  siginfo_t info = {0};
  long result = waitid(P_PID, dead, &info, WEXITED | WNOWAIT | WNOHANG);
  tell("zombie %s %d %d", outcome(result), info.si_code, info.si_status);
}

static struct child *child;
static void tell_child(void) { ask_child(child); }

static void lead_session(void) { may(setsid()); }
static void session_child(void) { child = start_child(lead_session, tell_place); }

static void lead_group(void) { may(setpgid(0, 0)); }
static void group_child(void) { child = start_child(lead_group, tell_place); }

/* The root is a subreaper and adopts it; its session, if it has one of its own, has no leader any more. */
static pid_t *adopter;
static void tell_orphan(void) {
  tell("parent is root %d session led %d group led %d", getppid() == *adopter, getsid(0) == getpid(), getpgrp() == getpid());
}

static void adopt(bool leave) {
  adopter = shared_memory(4096);
  *adopter = getpid();
  may(prctl(PR_SET_CHILD_SUBREAPER, 1));
  child = new_child();
  pid_t between = may(fork());
  if (between == 0) {
    if (leave) may(setsid());
    start_child_in(child, NULL, tell_orphan);
    _exit(0);
  }
  waitpid(between, NULL, 0);
}

static void adopt_orphan(void) { adopt(false); }
static void adopt_leaderless(void) { adopt(true); }

static atomic_int threads_seen[3];
static void *be_thread(void *number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN + 5 + (int)(long)number);
  pthread_sigmask(SIG_SETMASK, &set, NULL);
  char name[16];
  snprintf(name, sizeof name, "thread %ld", (long)number);
  prctl(PR_SET_NAME, name);
  nice((int)(long)number + 1);
  for (;; pause_shortly()) threads_seen[(long)number]++;
  return NULL;
}
static void start_threads(void) {
  for (long i = 0; i < 3; i++) {
    pthread_t thread;
    errno = pthread_create(&thread, NULL, be_thread, (void *)i);
    if (errno) impossible("pthread_create: %s", strerror(errno));
  }
  for (int i = 0; i < 3; i++)
    while (threads_seen[i] == 0) pause_shortly();
}
static void tell_threads(void) {
  for (int i = 0; i < 3; i++) {
    int before = threads_seen[i];
    for (int left = 10000; threads_seen[i] == before && left > 0; left--) pause_shortly();
    tell("thread %d lives %d", i, threads_seen[i] != before);
  }
}

static pid_t stopped;
static void stop_child(void) {
  stopped = may(fork());
  if (stopped == 0)
    for (;;) pause();
  kill(stopped, SIGSTOP);
  siginfo_t info;
  may(waitid(P_PID, stopped, &info, WSTOPPED | WNOWAIT));
}
static void tell_stopped(void) {
  /* Not from /proc, which may be that of another pid namespace. */
  siginfo_t info = {0};
  for (int left = 10000; info.si_pid == 0 && left > 0; left--) {
    may(waitid(P_PID, stopped, &info, WSTOPPED | WNOHANG | WNOWAIT));
    if (info.si_pid == 0) pause_shortly();
  }
  tell("stopped %d", info.si_pid == stopped && info.si_code == CLD_STOPPED);
}

static char *stack;
static int share_memory(void *unused) {
  (void)unused;
  for (;;) pause();
  return 0;
}
static void clone_memory(void) {
  stack = malloc(65536);
  may(clone(share_memory, stack + 65536, CLONE_VM | SIGCHLD, NULL));
}

/* A child of a child of a child; the one between has its own group, and its leader has exited. */
static void start_deep(void) {
  child = new_child();
  pid_t first = may(fork());
  if (first == 0) {
    may(setpgid(0, 0));
    pid_t next = may(fork());
    if (next == 0) {
      start_child_in(child, NULL, tell_place);
      for (;;) pause();
    }
    while (!has_answered(child)) pause_shortly();
    for (;;) pause();
  }
  while (!has_answered(child)) pause_shortly();
}

/* The leader of the group is a zombie. */
static void leave_group_leader(void) {
  pid_t leader = may(fork());
  if (leader == 0) {
    may(setpgid(0, 0));
    _exit(5);
  }
  siginfo_t info;
  may(waitid(P_PID, leader, &info, WEXITED | WNOWAIT));
  pid_t *group = shared_memory(4096);
  *group = leader;
  adopter = group;
  child = new_child();
  pid_t member = may(fork());
  if (member == 0) {
    may(setpgid(0, *group));
    start_child_in(child, NULL, tell_orphan);
    for (;;) pause();
  }
  while (!has_answered(child)) {
    if (waitpid(member, NULL, WNOHANG) == member) _exit(77); /* it has reported why */
    pause_shortly();
  }
}

/* The leader of the group was reaped. */
static void lose_group_leader(void) {
  int go[2];
  may(pipe(go));
  child = new_child();
  pid_t leader = may(fork());
  if (leader == 0) {
    may(setpgid(0, 0));
    char byte;
    ssize_t unused = read(go[0], &byte, 1);
    (void)unused;
    _exit(0);
  }
  while (getpgid(leader) != leader) pause_shortly();
  pid_t member = may(fork());
  if (member == 0) {
    may(setpgid(0, leader));
    close(go[1]);
    start_child_in(child, NULL, tell_place);
    for (;;) pause();
  }
  while (!has_answered(child)) {
    if (waitpid(member, NULL, WNOHANG) == member) _exit(77);
    pause_shortly();
  }
  close(go[1]);
  kill(leader, SIGKILL);
  waitpid(leader, NULL, 0);
  close(go[0]);
}

/* A thread other than the first is the parent. */
static void *start_one(void *unused) {
  (void)unused;
  child = start_child(NULL, tell_place);
  for (;; pause_shortly()) threads_seen[0]++;
  return NULL;
}
static void thread_child(void) {
  pthread_t thread;
  errno = pthread_create(&thread, NULL, start_one, NULL);
  if (errno) impossible("pthread_create: %s", strerror(errno));
  while (threads_seen[0] == 0) pause_shortly();
}

/* The root traces its child, as a debugger does. */
static pid_t traced;
static void trace_child(void) {
  traced = may(fork());
  if (traced == 0)
    for (;;) pause();
  may(ptrace(PTRACE_SEIZE, traced, 0, 0));
}
/* A child that waits for its own child, which executes nothing: vfork. */
static void wait_in_vfork(void) {
  pid_t between = may(fork());
  if (between == 0) {
    if (vfork() == 0)
      for (;;) pause();
    _exit(0);
  }
  for (int i = 0; i < 20; i++) pause_shortly();
}

static struct child *reaper;
static void be_reaper(void) { may(prctl(PR_SET_CHILD_SUBREAPER, 1)); }
static void tell_reaper(void) {
  int value = 0;
  prctl(PR_GET_CHILD_SUBREAPER, &value);
  tell("subreaper %d", value);
}
static void child_reaper(void) { reaper = start_child(be_reaper, tell_reaper); }
static void tell_child_reaper(void) { ask_child(reaper); }

static void plain_child(void) { child = start_child(NULL, tell_place); }

static void many_children(void) {
  for (int i = 0; i < 10; i++) child = start_child(NULL, tell_place);
}

const struct attribute tree_attributes[] = {
    {"tree-zombie", EARLY, leave_zombie, tell_zombie},
    {"tree-session", EARLY, session_child, tell_child},
    {"tree-group", EARLY, group_child, tell_child},
    {"tree-orphan", EARLY, adopt_orphan, tell_child},
    {"tree-leaderless", EARLY, adopt_leaderless, tell_child},
    {"tree-threads", EARLY, start_threads, tell_threads},
    {"tree-stopped", EARLY, stop_child, tell_stopped},
    {"tree-clone-vm", EARLY, clone_memory, NULL},
    {"tree-child", EARLY, plain_child, tell_child},
    {"tree-deep", EARLY, start_deep, tell_child},
    {"tree-zombie-leader", EARLY, leave_group_leader, tell_child},
    {"tree-group-leaderless", EARLY, lose_group_leader, tell_child},
    {"tree-thread-child", EARLY, thread_child, tell_child},
    {"tree-traced", EARLY, trace_child, NULL},
    {"tree-vfork", EARLY, wait_in_vfork, NULL},
    {"tree-reaper", EARLY, child_reaper, tell_child_reaper},
    {"tree-many", EARLY, many_children, tell_child},
    {0},
};
