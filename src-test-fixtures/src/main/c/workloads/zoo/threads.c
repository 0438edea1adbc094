/* Threads and what they wait on. */
#include <linux/futex.h>
#include <linux/rseq.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "zoo.h"

enum { THREADS = 8 };

static atomic_ulong counted[THREADS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;
static pid_t thread_ids[THREADS];
static _Thread_local long own_number = -1;

static void start(void *(*body)(void *), long number) {
  pthread_t thread;
  errno = pthread_create(&thread, NULL, body, (void *)number);
  if (errno) bad("pthread_create: %s", strerror(errno));
}

/* Each has its name, its thread id and its thread-local number, and all must see all count. */
static void *count_for_ever(void *number) {
  own_number = (long)number;
  char name[16];
  snprintf(name, sizeof name, "counter-%ld", own_number);
  must(prctl(PR_SET_NAME, name));
  thread_ids[own_number] = gettid();
  for (;; rest()) {
    char now[16] = "";
    must(prctl(PR_GET_NAME, now));
    expect(strcmp(now, name) == 0);
    expect(own_number == (long)number);
    expect(thread_ids[own_number] == gettid());
    counted[own_number]++;
  }
  return NULL;
}

static void start_threads(void) {
  for (long i = 0; i < THREADS; i++) start(count_for_ever, i);
}

static void all_count(void) {
  static unsigned long before[THREADS];
  for (int i = 0; i < THREADS; i++) {
    await(counted[i] > before[i]);
    before[i] = counted[i];
  }
}

/* Threads that pass a token on, asleep on a condition most of the time. */
static void *pass_on(void *number) {
  for (;;) {
    pthread_mutex_lock(&mutex);
    while (turn != (int)(long)number) pthread_cond_wait(&changed, &mutex);
    turn = (turn + 1) % THREADS;
    counted[(long)number]++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    rest();
  }
  return NULL;
}

static void start_ring(void) {
  for (long i = 0; i < THREADS; i++) start(pass_on, i);
}

/* Two processes and a futex in memory that they share: the child sleeps until woken. */
static atomic_int *word, *woken;

static void sleep_on_futex(void) {
  for (;;) {
    int seen = *word;
    *woken = seen;
    syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
  }
}

static void start_futex(void) {
  word = shared_memory(4096);
  woken = word + 1;
  *word = 1;
  child(sleep_on_futex);
  await(*woken == *word);
}

static void wake_by_futex(void) {
  (*word)++;
  syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
  await(*woken == *word);
}

/* A mutex shared by processes, held by a child that may only give it up when told. */
static pthread_mutex_t *held;
static atomic_int *give_up;

static void hold(void) {
  pthread_mutex_lock(held);
  *give_up = 1;
  while (*give_up != 2) rest();
  _exit(0); /* without unlocking: the kernel must find the list of held mutexes */
}

static void start_robust(void) {
  held = shared_memory(4096);
  give_up = (atomic_int *)(held + 1);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(held, &attributes);
  child(hold);
  await(*give_up == 1);
}

static void is_held(void) { expect(pthread_mutex_trylock(held) == EBUSY); }

static void is_told_of_the_death(void) {
  *give_up = 2;
  await(pthread_mutex_trylock(held) == EOWNERDEAD);
  pthread_mutex_consistent(held);
  *give_up = 3;
}

static void is_held_until_told(void) {
  if (*give_up < 2) is_held();
}

/* The C library registers it; the kernel writes the processor there. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

static volatile struct rseq *rseq(void) {
  return (volatile struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

static void have_rseq(void) {
  if (!&__rseq_size || __rseq_size == 0) impossible("the C library registers no rseq");
}

/* Often the thread moves between the two looks, but not always. */
static void rseq_follows(void) {
  unsigned cpu = -1;
  await(syscall(SYS_getcpu, &cpu, NULL, NULL) == 0 && rseq()->cpu_id == cpu && rseq()->cpu_id_start == cpu);
}

const struct specimen thread_specimens[] = {
    {"threads", "", 0, start_threads, all_count, NULL},
    {"condition", "", 0, start_ring, all_count, NULL},
    {"futex", "", 0, start_futex, wake_by_futex, NULL},
    {"robust-mutex", "", 0, start_robust, is_held_until_told, is_told_of_the_death},
    {"rseq", "", 0, have_rseq, rseq_follows, NULL},
    {0},
};
