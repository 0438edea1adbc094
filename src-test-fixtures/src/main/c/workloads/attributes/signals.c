/* Signals: ignored, blocked, handled, waiting, and the stack to handle them on. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attributes.h"

static void ignore_some(void) {
  signal(SIGHUP, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGRTMIN + 10, SIG_IGN);
}

static void block(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  may(sigprocmask(SIG_BLOCK, &set, NULL));
}

static void block_some(void) {
  block(SIGTERM);
  block(SIGCHLD);
}

static void let_wait(void) {
  block(SIGUSR2);
  block(SIGRTMIN + 11);
  for (int i = 0; i < 3; i++) may(sigqueue(getpid(), SIGRTMIN + 11, (union sigval){.sival_int = 100 + i}));
  may(syscall(SYS_tgkill, getpid(), gettid(), SIGUSR2));
}

/* Takes them out and puts them back. */
static void tell_waiting(void) {
  sigset_t set;
  struct timespec now = {0};
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN + 11);
  for (int i = 0; i < 3; i++) {
    siginfo_t info = {0};
    int number = sigtimedwait(&set, &info, &now);
    tell("waiting %d value %d", number > 0, info.si_value.sival_int);
  }
  for (int i = 0; i < 3; i++) sigqueue(getpid(), SIGRTMIN + 11, (union sigval){.sival_int = 100 + i});
}

static volatile sig_atomic_t handled;
static void handle(int number) {
  (void)number;
  handled++;
}

static void handle_one(void) {
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART | SA_NODEFER};
  sigaddset(&action.sa_mask, SIGQUIT);
  may(sigaction(SIGUSR1, &action, NULL));
}

static void tell_handler(void) {
  struct sigaction now;
  sigaction(SIGUSR1, NULL, &now);
  int before = handled;
  raise(SIGUSR1);
  tell("handler %d flags %x mask %d", handled - before, now.sa_flags & ~0x04000000, sigismember(&now.sa_mask, SIGQUIT));
}

static void reap_nobody(void) {
  struct sigaction action = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT | SA_NOCLDSTOP};
  may(sigaction(SIGCHLD, &action, NULL));
}
static void tell_reaping(void) {
  struct sigaction now;
  sigaction(SIGCHLD, NULL, &now);
  tell("flags %x", now.sa_flags & ~0x04000000);
}

/* Waits for one thread alone. */
static atomic_int thread_waits = -1;
static void *wait_in_thread(void *unused) {
  (void)unused;
  block(SIGRTMIN + 12);
  may(syscall(SYS_tgkill, getpid(), gettid(), SIGRTMIN + 12));
  for (;; pause_shortly()) {
    sigset_t set;
    sigpending(&set);
    thread_waits = sigismember(&set, SIGRTMIN + 12);
  }
  return NULL;
}
static void let_wait_in_thread(void) {
  pthread_t thread;
  errno = pthread_create(&thread, NULL, wait_in_thread, NULL);
  if (errno) impossible("pthread_create: %s", strerror(errno));
  while (thread_waits < 0) pause_shortly();
}
static void tell_thread_waits(void) {
  thread_waits = -1;
  for (int left = 10000; thread_waits < 0 && left > 0; left--) pause_shortly();
  tell("waits %d", thread_waits);
}

static void disarmed_stack(void) {
  stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536, .ss_flags = (int)(1U << 31) /* SS_AUTODISARM */};
  may(sigaltstack(&stack, NULL));
}

static void own_stack(void) {
  stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
  may(sigaltstack(&stack, NULL));
}

const struct attribute signal_attributes[] = {
    {"signals-ignored", EARLY, ignore_some, NULL},
    {"signals-blocked", EARLY, block_some, NULL},
    {"signals-pending", LATE, let_wait, tell_waiting},
    {"signals-handled", EARLY, handle_one, tell_handler},
    {"signals-children", EARLY, reap_nobody, tell_reaping},
    {"signals-thread", EARLY, let_wait_in_thread, tell_thread_waits},
    {"signals-stack-disarmed", EARLY, disarmed_stack, NULL},
    {"signals-stack", EARLY, own_stack, NULL},
    {0},
};
