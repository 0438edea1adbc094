/* Shapes of the tree. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
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
    {"tree-many", EARLY, many_children, tell_child},
    {0},
};
