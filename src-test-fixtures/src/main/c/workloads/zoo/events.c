/* Descriptors that tell of events. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "zoo.h"

static int fd, other, watch;
static char *directory;

/* A counter that holds 7 all the time. */
static void open_eventfd(void) { fd = must(eventfd(7, EFD_NONBLOCK)); }

static void count_eventfd(void) {
  uint64_t value = 0;
  expect(read(fd, &value, sizeof value) == sizeof value && value == 7);
  expect(read(fd, &value, sizeof value) < 0 && errno == EAGAIN);
  value = 7;
  expect(write(fd, &value, sizeof value) == sizeof value);
}

/* One that is taken from in ones, and one that stays empty. */
static void open_semaphore(void) {
  fd = must(eventfd(1000, EFD_SEMAPHORE | EFD_NONBLOCK));
  other = must(eventfd(0, 0));
}

static void take_semaphore(void) {
  uint64_t value = 0;
  expect(read(fd, &value, sizeof value) == sizeof value);
  if (value != 1) bad("the semaphore has become a counter");
  expect(write(fd, &value, sizeof value) == sizeof value);
  expect(is_readable(fd, 0) && !is_readable(other, 0));
}

/* Three descriptors with three cookies; one edge-triggered, one of them never ready. */
static void open_epoll(void) {
  fd = must(epoll_create1(0));
  int ready = must(eventfd(1, 0)), never = must(eventfd(0, 0)), edge = must(eventfd(0, 0));
  other = edge;
  must(epoll_ctl(fd, EPOLL_CTL_ADD, ready, &(struct epoll_event){EPOLLIN, {.u64 = 0x1122334455667788}}));
  must(epoll_ctl(fd, EPOLL_CTL_ADD, never, &(struct epoll_event){EPOLLIN, {.u64 = 2}}));
  must(epoll_ctl(fd, EPOLL_CTL_ADD, edge, &(struct epoll_event){EPOLLIN | EPOLLET, {.u64 = 3}}));
}

static void wait_epoll(void) {
  struct epoll_event events[4];
  uint64_t one = 1;
  expect(write(other, &one, sizeof one) == sizeof one);
  int count = must(epoll_wait(fd, events, 4, 1000));
  bool level = false, edge = false;
  for (int i = 0; i < count; i++) {
    level |= events[i].data.u64 == 0x1122334455667788 && events[i].events == EPOLLIN;
    edge |= events[i].data.u64 == 3;
    expect(events[i].data.u64 != 2);
  }
  expect(level && edge);
}

static void open_signalfd(void) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  sigaddset(&signals, SIGRTMIN + 3);
  must(sigprocmask(SIG_BLOCK, &signals, NULL));
  fd = must(signalfd(-1, &signals, SFD_NONBLOCK));
}

static void read_signalfd(void) {
  struct signalfd_siginfo info;
  must(sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = 4711}));
  expect(read(fd, &info, sizeof info) == sizeof info);
  expect((int)info.ssi_signo == SIGRTMIN + 3 && info.ssi_int == 4711);
  expect(read(fd, &info, sizeof info) < 0 && errno == EAGAIN);
}

static void open_inotify(void) {
  directory = own_path("watched");
  must(mkdir(directory, 0700));
  fd = must(inotify_init1(IN_NONBLOCK));
  watch = must(inotify_add_watch(fd, directory, IN_CREATE | IN_DELETE));
}

static void next_inotify(uint32_t mask) {
  char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
  struct inotify_event *event = (struct inotify_event *)buffer;
  await(read(fd, buffer, sizeof *event + 16) > 0); /* one event, with a short name */
  if (event->wd != watch || event->mask != mask) bad("event %x of watch %d", event->mask, event->wd);
}

static void inotify_is_quiet(void) { expect(!is_readable(fd, 0)); }

static void inotify_tells(void) {
  char *file = NULL;
  if (asprintf(&file, "%s/f", directory) < 0) bad("no memory");
  must(close(must(open(file, O_CREAT | O_WRONLY, 0600))));
  next_inotify(IN_CREATE);
  must(unlink(file));
  next_inotify(IN_DELETE);
  free(file);
}

static void open_fanotify(void) {
  directory = own_path("watched");
  must(mkdir(directory, 0700));
  fd = may(fanotify_init(FAN_CLASS_NOTIF | FAN_NONBLOCK, O_RDONLY));
  must(fanotify_mark(fd, FAN_MARK_ADD, FAN_OPEN | FAN_EVENT_ON_CHILD, AT_FDCWD, directory));
}

static void fanotify_tells(void) {
  char *file = NULL;
  if (asprintf(&file, "%s/f", directory) < 0) bad("no memory");
  must(close(must(open(file, O_CREAT | O_WRONLY, 0600))));
  struct fanotify_event_metadata event;
  await(read(fd, &event, sizeof event) == sizeof event);
  expect(event.mask == FAN_OPEN && event.pid == getpid());
  must(close(event.fd));
  free(file);
}

/* A descriptor of a living child, and one of this process. */
static pid_t sleeper;

static void sleep_on(void) {
  for (;;) pause();
}

static void open_pidfd(void) {
  sleeper = child(sleep_on);
  fd = may(syscall(SYS_pidfd_open, sleeper, 0));
  other = may(syscall(SYS_pidfd_open, getpid(), 0));
}

static void pidfd_lives(void) {
  expect(!is_readable(fd, 0));
  must(syscall(SYS_pidfd_send_signal, other, 0, NULL, 0));
}

static void pidfd_kills(void) {
  must(syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0));
  await(is_readable(fd, 0));
  must(close(fd));
  fd = must(eventfd(0, 0)); /* never ready, for the checks to come */
}

const struct specimen event_specimens[] = {
    {"eventfd", "", 0, open_eventfd, count_eventfd, NULL},
    {"eventfd-semaphore", "", 0, open_semaphore, take_semaphore, NULL},
    {"epoll", "", 0, open_epoll, wait_epoll, NULL},
    {"signalfd", "", 0, open_signalfd, read_signalfd, NULL},
    {"inotify", "", 0, open_inotify, inotify_is_quiet, inotify_tells},
    {"fanotify", "", 0, open_fanotify, inotify_is_quiet, fanotify_tells},
    {"pidfd", "", 0, open_pidfd, pidfd_lives, pidfd_kills},
    {0},
};
