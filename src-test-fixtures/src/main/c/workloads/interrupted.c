#include "interrupted.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "cuda.h"

enum { MOST = 8, ALTERNATE_STACK = 1 << 16, FIBER_STACK = 8192, POLLS = 1000 };

static CUcontext context;
static CUresult (*poll)(CUstream);
static void (*fail)(const char *what, int result);

static struct victim {
  pthread_t thread;
  atomic_bool is_there, in_handler;
  sem_t posted;
} victims[MOST];
static atomic_int victim_count;
static __thread struct victim *self;
static __thread ucontext_t here, there;

void interrupted_start(CUcontext current, CUresult (*with)(CUstream), void (*failed)(const char *, int)) {
  context = current;
  poll = with;
  fail = failed;
}

static void poll_once(void) {
  CUresult result = poll(NULL);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) fail("a poll", result);
}

bool interrupted_poll(void) {
  for (int i = 0; i < POLLS; i++) poll_once();
  return true;
}

static void sleep_for(long milliseconds) {
  struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  while (nanosleep(&left, &left) != 0) continue;
}

static void handle_alternate(int signal) {
  (void)signal;
  sleep_for(300);
}

static void handle_long(int signal) {
  (void)signal;
  sleep_for(3000);
}

static void handle_waiting(int signal) {
  (void)signal;
  while (sem_wait(&self->posted) != 0) continue;
}

/* Registers the calling thread, once, and polls for a while. */
static bool poll_with(int signal, void (*handler)(int), int flags) {
  if (self == NULL) {
    int number = atomic_fetch_add(&victim_count, 1);
    if (number >= MOST) return false;
    self = &victims[number];
    self->thread = pthread_self();
    sem_init(&self->posted, 0, 0);
    stack_t stack = {.ss_size = ALTERNATE_STACK};
    stack.ss_sp = mmap(NULL, ALTERNATE_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (flags & SA_ONSTACK) sigaltstack(&stack, NULL);
    sigaction(signal, &(struct sigaction){.sa_handler = handler, .sa_flags = flags | SA_RESTART}, NULL);
    atomic_store(&self->is_there, true);
  }
  interrupted_poll();
  /* Here, so that the thread leaves an interrupted poll before the next signal. */
  atomic_store(&self->in_handler, false);
  return true;
}

bool interrupted_alternate(void) { return poll_with(SIGUSR1, handle_alternate, SA_ONSTACK); }

bool interrupted_long(void) { return poll_with(SIGUSR1, handle_long, 0); }

bool interrupted_waiting(void) { return poll_with(SIGUSR1, handle_waiting, SA_ONSTACK); }

bool interrupted_by_signals(void) {
  for (int round = 0; round < 300; round++) {
    for (int i = 0; i < MOST; i++) {
      if (atomic_load(&victims[i].is_there) && !atomic_exchange(&victims[i].in_handler, true))
        pthread_kill(victims[i].thread, SIGUSR1);
    }
    usleep(1000);
  }
  for (int i = 0; i < MOST; i++)
    if (atomic_load(&victims[i].is_there)) sem_post(&victims[i].posted);
  return true;
}

static void *poll_for_ever(void *unused) {
  if (cuda.set_current(context) != CUDA_SUCCESS) return unused;
  for (;;) {
    poll_once();
    pthread_testcancel();
  }
  return unused;
}

bool interrupted_cancel(void) {
  pthread_t thread;
  void *result;
  if (pthread_create(&thread, NULL, poll_for_ever, NULL) != 0) return false;
  usleep(20000);
  pthread_cancel(thread);
  pthread_join(thread, &result);
  if (result != PTHREAD_CANCELED) fail("a cancelled thread returned", 0);
  return true;
}

bool interrupted_fork(void) {
  pid_t child = fork();
  int status;
  if (child == 0) _exit(poll(NULL) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
  if (child < 0) return false;
  if (waitpid(child, &status, 0) != child || status != 0) fail("a child ended", status);
  usleep(2000);
  return true;
}

static void on_fiber(void) { interrupted_poll(); }

bool interrupted_fiber(void) {
  static __thread char *stack;
  if (stack == NULL) stack = mmap(NULL, FIBER_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  getcontext(&there);
  there.uc_stack.ss_sp = stack;
  there.uc_stack.ss_size = FIBER_STACK;
  there.uc_link = &here;
  makecontext(&there, on_fiber, 0);
  swapcontext(&here, &there);
  return true;
}
