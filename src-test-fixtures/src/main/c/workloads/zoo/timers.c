/* Timers: they go on with what was left of their time. */
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "zoo.h"

static const struct itimerspec EVERY_20_MS = {.it_interval = {.tv_nsec = 20000000}, .it_value = {.tv_nsec = 20000000}};
static const struct itimerspec FAR = {.it_interval = {.tv_sec = 7777}, .it_value = {.tv_sec = 10000}};

static volatile sig_atomic_t expired;
static timer_t near_timer, far_timer;
static int near_fd, far_fd;

static void note(int signal) {
  (void)signal;
  expired++;
}

static void *expect_far(const struct itimerspec *now) {
  expect(now->it_interval.tv_sec == FAR.it_interval.tv_sec);
  expect(now->it_value.tv_sec > 9000 && now->it_value.tv_sec <= 10000);
  return NULL;
}

static void open_timerfd(void) {
  near_fd = must(timerfd_create(CLOCK_MONOTONIC, 0));
  far_fd = must(timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK));
  must(timerfd_settime(far_fd, 0, &FAR, NULL));
}

/*
 * If a dump reads the timer when its time is over and the kernel has not yet counted that, the image has neither: the
 * timer is set again then.
 */
static void await_timerfd(void) {
  for (int left = 5; left > 0; left--) {
    must(timerfd_settime(near_fd, 0, &(struct itimerspec){.it_value = {.tv_nsec = 20000000}}, NULL));
    if (is_readable(near_fd, 1000)) return;
  }
  bad("the timer does not expire");
}

static void read_timerfd(void) {
  uint64_t times = 0;
  await_timerfd();
  expect(read(near_fd, &times, sizeof times) == sizeof times && times == 1);
  expect(read(far_fd, &times, sizeof times) < 0 && errno == EAGAIN);
  struct itimerspec now;
  must(timerfd_gettime(far_fd, &now));
  expect_far(&now);
}

/* One that has expired and has not been read: only the kernel knows then when it would expire again. */
static void open_expired_timerfd(void) {
  near_fd = must(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
  must(timerfd_settime(near_fd, 0, &EVERY_20_MS, NULL));
}

static void is_expired(void) { expect(is_readable(near_fd, 1000)); }

static void expires_again(void) {
  uint64_t times = 0;
  expect(read(near_fd, &times, sizeof times) == sizeof times && times > 0);
  if (!is_readable(near_fd, 1000)) bad("the timer stands still");
}

static void create_posix_timers(void) {
  signal(SIGRTMIN, note);
  struct sigevent by_signal = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
  must(timer_create(CLOCK_MONOTONIC, &by_signal, &near_timer));
  must(timer_create(CLOCK_REALTIME, &by_signal, &far_timer));
  must(timer_settime(near_timer, 0, &EVERY_20_MS, NULL));
  must(timer_settime(far_timer, 0, &FAR, NULL));
}

static void posix_timers_expire(void) {
  sig_atomic_t before = expired;
  await(expired > before);
  struct itimerspec now;
  must(timer_gettime(far_timer, &now));
  expect_far(&now);
}

static void start_itimers(void) {
  signal(SIGALRM, note);
  struct itimerval real = {.it_interval = {.tv_usec = 20000}, .it_value = {.tv_usec = 20000}};
  struct itimerval processor = {.it_interval = {.tv_sec = 7777}, .it_value = {.tv_sec = 10000}};
  must(setitimer(ITIMER_REAL, &real, NULL));
  must(setitimer(ITIMER_PROF, &processor, NULL));
}

static void itimers_expire(void) {
  sig_atomic_t before = expired;
  await(expired > before);
  struct itimerval now;
  must(getitimer(ITIMER_PROF, &now));
  expect(now.it_interval.tv_sec == 7777 && now.it_value.tv_sec > 9000);
}

/* A child that sleeps again and again: stopped in its sleep it goes on with the rest of it, and never wakes early. */
static atomic_ulong *slept;

static void sleep_for_ever(void) {
  for (;;) {
    struct timespec left = {.tv_nsec = 30000000}, begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    /* CRIU ends a relative sleep with EINTR; what is left of it must be right. */
    while ((errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left))) expect(errno == EINTR);
    clock_gettime(CLOCK_MONOTONIC, &end);
    long took = (end.tv_sec - begin.tv_sec) * 1000000000L + end.tv_nsec - begin.tv_nsec;
    if (took < 30000000) bad("slept for %ld ns", took);
    (*slept)++;
  }
}

static void start_sleeper(void) {
  slept = shared_memory(4096);
  child(sleep_for_ever);
}

static void sleeper_wakes(void) {
  unsigned long before = *slept;
  await(*slept > before);
}

const struct specimen timer_specimens[] = {
    {"timerfd", "", 0, open_timerfd, read_timerfd, NULL},
    {"timerfd-expired", "", 0, open_expired_timerfd, is_expired, expires_again},
    {"posix-timers", "", 0, create_posix_timers, posix_timers_expire, NULL},
    {"itimers", "", 0, start_itimers, itimers_expire, NULL},
    {"sleep", "", 0, start_sleeper, sleeper_wakes, NULL},
    {0},
};
