/* Signals: waiting, handled, blocked, and the stack to handle them on. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "zoo.h"

enum { WAITING = 5 };

/* Several of one number with their values, one to the process and one to this very thread. */
static void queue_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGUSR2);
  sigaddset(&set, SIGRTMIN + 1);
  must(sigprocmask(SIG_BLOCK, &set, NULL));
  for (int i = 0; i < WAITING; i++) must(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 100 + i}));
  must(kill(getpid(), SIGUSR1));
  must(syscall(SYS_tgkill, getpid(), gettid(), SIGUSR2));
}

static void still_pending(void) {
  sigset_t set;
  must(sigpending(&set));
  expect(sigismember(&set, SIGUSR1) && sigismember(&set, SIGUSR2) && sigismember(&set, SIGRTMIN + 1));
}

static void take(int signal, siginfo_t *info) {
  sigset_t set;
  struct timespec now = {0};
  sigemptyset(&set);
  sigaddset(&set, signal);
  expect(sigtimedwait(&set, info, &now) == signal);
}

static void take_in_order(void) {
  siginfo_t info;
  for (int i = 0; i < WAITING; i++) {
    take(SIGRTMIN + 1, &info);
    expect(info.si_code == SI_QUEUE && info.si_int == 100 + i && info.si_pid == getpid());
  }
  take(SIGUSR1, &info);
  take(SIGUSR2, &info);
  expect(info.si_pid == getpid());
  queue_signals();
}

static char *alternate;
static volatile sig_atomic_t handled;
static volatile sig_atomic_t was_on_alternate;

static void handle(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)context;
  char here;
  was_on_alternate = &here > alternate && &here < alternate + 65536;
  if (info->si_int == 7) handled++;
}

static void set_handlers(void) {
  alternate = malloc(65536);
  stack_t stack = {.ss_sp = alternate, .ss_size = 65536};
  must(sigaltstack(&stack, NULL));
  struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
  sigaddset(&action.sa_mask, SIGQUIT);
  must(sigaction(SIGUSR1, &action, NULL));
  signal(SIGHUP, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  must(sigprocmask(SIG_BLOCK, &set, NULL));
}

static void use_handlers(void) {
  sig_atomic_t before = handled;
  must(sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 7}));
  await(handled == before + 1);
  expect(was_on_alternate);
  must(kill(getpid(), SIGHUP));
  struct sigaction now;
  must(sigaction(SIGUSR1, NULL, &now));
  expect(sigismember(&now.sa_mask, SIGQUIT) && (now.sa_flags & SA_RESTART));
  sigset_t set;
  must(sigprocmask(SIG_BLOCK, NULL, &set));
  expect(sigismember(&set, SIGTERM));
}

/* Each thread blocks another signal. */
static atomic_int masks_seen[3];

static void *block_own(void *number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN + 5 + (int)(long)number);
  errno = pthread_sigmask(SIG_SETMASK, &set, NULL);
  if (errno) bad("pthread_sigmask: %s", strerror(errno));
  for (;; rest()) {
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    for (int i = 0; i < 3; i++) expect(sigismember(&now, SIGRTMIN + 5 + i) == (i == (int)(long)number));
    masks_seen[(long)number]++;
  }
  return NULL;
}

static void start_masked_threads(void) {
  for (long i = 0; i < 3; i++) {
    pthread_t thread;
    errno = pthread_create(&thread, NULL, block_own, (void *)i);
    if (errno) bad("pthread_create: %s", strerror(errno));
  }
}

static void threads_see_their_masks(void) {
  for (int i = 0; i < 3; i++) {
    int before = masks_seen[i];
    await(masks_seen[i] > before);
  }
}

const struct specimen signal_specimens[] = {
    {"pending-signals", "", 0, queue_signals, still_pending, take_in_order},
    {"signal-handlers", "", 0, set_handlers, use_handlers, NULL},
    {"signal-masks", "", 0, start_masked_threads, threads_see_their_masks, NULL},
    {0},
};
