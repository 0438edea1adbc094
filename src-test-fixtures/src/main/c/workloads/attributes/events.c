/* Timers, descriptors that report events, pipes and queues. */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <mqueue.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "attributes.h"

static void interval(void) {
  may(setitimer(ITIMER_VIRTUAL, &(struct itimerval){{100000, 0}, {200000, 0}}, NULL));
}
static void tell_interval(void) {
  struct itimerval now;
  getitimer(ITIMER_VIRTUAL, &now);
  tell("every %ld left %d", (long)now.it_interval.tv_sec, now.it_value.tv_sec > 100000);
}

static timer_t timer;
static void posix_timer(void) {
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 9, .sigev_value.sival_int = 77};
  may(timer_create(CLOCK_MONOTONIC, &event, &timer));
  may(timer_settime(timer, 0, &(struct itimerspec){{5000, 0}, {100000, 0}}, NULL));
}
static void tell_posix_timer(void) {
  struct itimerspec now = {0};
  long result = timer_gettime(timer, &now);
  tell("timer %s every %ld left %d", outcome(result), (long)now.it_interval.tv_sec, now.it_value.tv_sec > 90000);
}

static void real_interval(void) {
  signal(SIGALRM, SIG_IGN);
  may(setitimer(ITIMER_REAL, &(struct itimerval){{5000, 0}, {100000, 0}}, NULL));
}
static void tell_real(void) {
  struct itimerval now;
  getitimer(ITIMER_REAL, &now);
  tell("every %ld left %d", (long)now.it_interval.tv_sec, now.it_value.tv_sec > 90000);
}

static void start_timer(clockid_t clock, int notify) {
  struct sigevent event = {.sigev_notify = notify, .sigev_signo = SIGRTMIN + 9, .sigev_value.sival_int = 77};
  if (notify == SIGEV_THREAD_ID) event._sigev_un._tid = gettid();
  may(timer_create(clock, &event, &timer));
  may(timer_settime(timer, 0, &(struct itimerspec){{5000, 0}, {100000, 0}}, NULL));
}
static void processor_timer(void) { start_timer(CLOCK_PROCESS_CPUTIME_ID, SIGEV_SIGNAL); }
static void silent_timer(void) { start_timer(CLOCK_REALTIME, SIGEV_NONE); }
static void thread_timer(void) { start_timer(CLOCK_BOOTTIME, SIGEV_THREAD_ID); }

static int expired_file;
static void expired_descriptor(void) {
  expired_file = may(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  may(timerfd_settime(expired_file, 0, &(struct itimerspec){{0, 0}, {0, 1}}, NULL));
  pause_shortly();
}
static void tell_expired(void) {
  struct pollfd one = {.fd = expired_file, .events = POLLIN};
  tell("expired %d", poll(&one, 1, 0));
}

static int real_file;
static void real_descriptor(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  real_file = may(timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC));
  struct itimerspec then = {{0, 0}, {now.tv_sec + 100000, 0}};
  may(timerfd_settime(real_file, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &then, NULL));
}
static void tell_real_descriptor(void) {
  struct itimerspec now = {0};
  long result = timerfd_gettime(real_file, &now);
  tell("timer %s left %d", outcome(result), now.it_value.tv_sec > 90000);
}

static int timer_file;
static void timer_descriptor(void) {
  timer_file = may(timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC));
  may(timerfd_settime(timer_file, 0, &(struct itimerspec){{5000, 0}, {100000, 0}}, NULL));
}
static void tell_timer_descriptor(void) {
  struct itimerspec now = {0};
  long result = timerfd_gettime(timer_file, &now);
  tell("timer %s every %ld left %d", outcome(result), (long)now.it_interval.tv_sec, now.it_value.tv_sec > 90000);
}

static int counter;
static void event_descriptor(void) { counter = may(eventfd(5, EFD_NONBLOCK | EFD_CLOEXEC)); }
static void tell_counter(void) {
  eventfd_t value = 0;
  long result = eventfd_read(counter, &value);
  tell("count %s %ld", outcome(result), (long)value);
  eventfd_write(counter, value);
}

static int semaphore;
static void event_semaphore(void) { semaphore = may(eventfd(5, EFD_NONBLOCK | EFD_CLOEXEC | EFD_SEMAPHORE)); }
static void tell_semaphore(void) {
  eventfd_t value = 0;
  long result = eventfd_read(semaphore, &value);
  tell("count %s %ld", outcome(result), (long)value);
  eventfd_write(semaphore, value);
}

static int poller, poller_end[2];

/* A poller in a poller, and an event that is disarmed after it was seen once. */
static int outer, inner, once;
static void poll_nested(void) {
  outer = may(epoll_create1(EPOLL_CLOEXEC));
  inner = may(epoll_create1(EPOLL_CLOEXEC));
  once = may(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = 5};
  may(epoll_ctl(outer, EPOLL_CTL_ADD, inner, &event));
  event = (struct epoll_event){.events = EPOLLIN | EPOLLONESHOT, .data.u64 = 6};
  may(epoll_ctl(inner, EPOLL_CTL_ADD, once, &event));
  may(epoll_wait(inner, &event, 1, 0));
}
static void tell_nested(void) {
  struct epoll_event event = {0};
  tell("inner %d", epoll_wait(inner, &event, 1, 0));
  int copy = eventfd(1, EFD_CLOEXEC);
  event = (struct epoll_event){.events = EPOLLIN, .data.u64 = 7};
  long added = epoll_ctl(inner, EPOLL_CTL_ADD, copy, &event);
  int ready = epoll_wait(outer, &event, 1, 0);
  tell("added %s outer %d %ld", outcome(added), ready, (long)event.data.u64);
  close(copy);
}

/* The poller keeps a file whose descriptor is closed, because another descriptor has it. */
static int keeping;
static void poll_closed(void) {
  keeping = may(epoll_create1(EPOLL_CLOEXEC));
  int first = may(eventfd(1, EFD_CLOEXEC));
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = 9};
  may(epoll_ctl(keeping, EPOLL_CTL_ADD, first, &event));
  may(fcntl(first, F_DUPFD_CLOEXEC, 500));
  close(first);
}
static void tell_closed(void) {
  struct epoll_event event = {0};
  tell("ready %d %ld", epoll_wait(keeping, &event, 1, 0), (long)event.data.u64);
}

static void poll_events(void) {
  poller = may(epoll_create1(EPOLL_CLOEXEC));
  may(pipe2(poller_end, O_CLOEXEC | O_NONBLOCK));
  struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = 0x1122334455667788};
  may(epoll_ctl(poller, EPOLL_CTL_ADD, poller_end[0], &event));
}
static void tell_poller(void) {
  struct epoll_event event = {0};
  char byte;
  ssize_t unused = write(poller_end[1], "x", 1);
  int ready = epoll_wait(poller, &event, 1, 0);
  tell("ready %d %lx", ready, (long)event.data.u64);
  unused = read(poller_end[0], &byte, 1);
  (void)unused;
}

static void tell_watch(int watch, const char *path) {
  char buffer[4096];
  while (read(watch, buffer, sizeof buffer) > 0) {
  }
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file >= 0) close(file);
  ssize_t length = read(watch, buffer, sizeof buffer);
  tell("events %s", outcome(length));
}

static int watch;
static void watch_file(void) {
  watch = may(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  close(own_file("watched", ""));
  may(inotify_add_watch(watch, own_path("watched"), IN_CLOSE_WRITE));
}
static void tell_watch_file(void) { tell_watch(watch, own_path("watched")); }

/* An event that was not read yet. */
static int unread;
static void watch_unread(void) {
  unread = may(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  may(mkdir(own_path("watched-directory"), 0755));
  may(inotify_add_watch(unread, own_path("watched-directory"), IN_CREATE));
  close(own_file("watched-directory/new", ""));
}
static void tell_unread(void) {
  int length = 0;
  tell("waits %s %d", outcome(ioctl(unread, FIONREAD, &length)), length > 0);
}

static int memory_watch;
static char *memory_path;
static void watch_memory(void) {
  memory_watch = may(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (asprintf(&memory_path, "/dev/shm/gpuprocess-watched-%d", getpid()) < 0) impossible("no memory");
  close(may(open(memory_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)));
  may(inotify_add_watch(memory_watch, memory_path, IN_CLOSE_WRITE));
}
static void tell_watch_memory(void) { tell_watch(memory_watch, memory_path); }

static int overlay_watch;
static void watch_overlay(void) {
  overlay_watch = may(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  may(inotify_add_watch(overlay_watch, "/proc/self/exe", IN_OPEN | IN_CLOSE_NOWRITE));
}

static void watch_mount(void) {
  int group = may(fanotify_init(FAN_CLASS_NOTIF | FAN_NONBLOCK | FAN_CLOEXEC, O_RDONLY));
  may(fanotify_mark(group, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, own_path(".")));
}

static int signals;
static void signal_descriptor(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN + 2);
  sigprocmask(SIG_BLOCK, &set, NULL);
  signals = may(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
}
static void tell_signals(void) {
  struct signalfd_siginfo info = {0};
  sigqueue(getpid(), SIGRTMIN + 2, (union sigval){.sival_int = 8});
  ssize_t length = read(signals, &info, sizeof info);
  tell("signal %s %d", outcome(length), info.ssi_int);
}

static int child_file;
static void child_descriptor(void) {
  pid_t pid = may(fork());
  if (pid == 0)
    for (;;) pause();
  child_file = may(syscall(SYS_pidfd_open, pid, 0));
}
static void tell_child_descriptor(void) { tell("signal %s", outcome(syscall(SYS_pidfd_send_signal, child_file, 0, NULL, 0))); }

static int broken;
static void break_pipe(void) {
  int both[2];
  may(pipe2(both, O_CLOEXEC));
  may(write(both[1], "hello", 5));
  close(both[1]);
  broken = both[0];
}
static void tell_broken(void) {
  struct pollfd one = {.fd = broken, .events = POLLIN};
  int length = 0;
  poll(&one, 1, 0);
  tell("waits %s %d hang-up %d", outcome(ioctl(broken, FIONREAD, &length)), length, (one.revents & POLLHUP) != 0);
}

static void pid_descriptor(void) { may(syscall(SYS_pidfd_open, getpid(), 0)); }

static int ends[2];
static void open_pipe(void) {
  may(pipe2(ends, O_NONBLOCK | O_CLOEXEC));
  may(fcntl(ends[0], F_SETPIPE_SZ, 8192));
  may(write(ends[1], "hello", 5));
}
static void tell_pipe(int *both) {
  char text[16] = "";
  ssize_t length = read(both[0], text, 5);
  tell("text %s %s size %d", outcome(length), text, fcntl(both[0], F_GETPIPE_SZ));
  if (length > 0 && write(both[1], text, length) != length) tell("not written");
}
static void tell_own_pipe(void) { tell_pipe(ends); }

static int packets[2];
static void packet_pipe(void) {
  may(pipe2(packets, O_NONBLOCK | O_CLOEXEC | O_DIRECT));
  may(write(packets[1], "one", 3));
  may(write(packets[1], "two", 3));
}
static void tell_packets(void) {
  char text[16] = "";
  for (int i = 0; i < 2; i++) {
    ssize_t length = read(packets[0], text, sizeof text - 1);
    tell("packet %s %ld", outcome(length), (long)length);
    if (length > 0 && write(packets[1], text, length) != length) tell("not written");
  }
}

static int fifo[2];
static void open_fifo(void) {
  may(mkfifo(own_path("fifo"), 0600));
  fifo[0] = may(open(own_path("fifo"), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  fifo[1] = may(open(own_path("fifo"), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  may(write(fifo[1], "hello", 5));
}
static void tell_fifo(void) { tell_pipe(fifo); }

static mqd_t queue;
static void message_queue(void) {
  char name[64];
  snprintf(name, sizeof name, "/gpuprocess-%d", getpid());
  queue = may(mq_open(name, O_RDWR | O_CREAT | O_NONBLOCK, 0600, &(struct mq_attr){.mq_maxmsg = 2, .mq_msgsize = 16}));
  may(mq_send(queue, "hello", 5, 3));
  may(mq_unlink(name));
}
static void tell_queue(void) {
  struct mq_attr now = {0};
  long result = mq_getattr(queue, &now);
  tell("queue %s %ld", outcome(result), now.mq_curmsgs);
}

static int messages;
static void system_five_queue(void) {
  messages = may(msgget(IPC_PRIVATE, IPC_CREAT | 0600));
  struct {
    long type;
    char text[8];
  } message = {3, "hello"};
  may(msgsnd(messages, &message, sizeof message.text, 0));
}
static void tell_messages(void) {
  struct msqid_ds now;
  long result = msgctl(messages, IPC_STAT, &now);
  tell("queue %s %ld", outcome(result), result < 0 ? 0 : (long)now.msg_qnum);
}

static int semaphores;
static void system_five_semaphores(void) {
  semaphores = may(semget(IPC_PRIVATE, 2, IPC_CREAT | 0600));
  may(semctl(semaphores, 0, SETVAL, 5));
}
static void tell_semaphores(void) {
  long value = semctl(semaphores, 0, GETVAL);
  tell("semaphore %s %ld", outcome(value), value);
}

static void ring(void) {
  struct io_uring_params parameters = {0};
  may(syscall(SYS_io_uring_setup, 4, &parameters));
}

static void perf(void) {
  struct perf_event_attr event = {.type = PERF_TYPE_SOFTWARE, .size = sizeof event, .config = PERF_COUNT_SW_CPU_CLOCK};
  may(syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

static void asynchronous(void) {
  unsigned long context = 0;
  may(syscall(SYS_io_setup, 4, &context));
}

static void own_signal_of_file(void) {
  may(pipe2(ends, O_NONBLOCK | O_CLOEXEC));
  may(fcntl(ends[0], F_SETOWN, getpid()));
  may(fcntl(ends[0], F_SETSIG, SIGRTMIN + 3));
}
static void tell_owner(void) { tell("owner %d signal %d", fcntl(ends[0], F_GETOWN) == getpid(), fcntl(ends[0], F_GETSIG)); }

const struct attribute event_attributes[] = {
    {"timer-interval", EARLY, interval, tell_interval},
    {"timer-posix", EARLY, posix_timer, tell_posix_timer},
    {"timer-real", EARLY, real_interval, tell_real},
    {"timer-cpu", EARLY, processor_timer, tell_posix_timer},
    {"timer-silent", EARLY, silent_timer, tell_posix_timer},
    {"timer-thread", EARLY, thread_timer, tell_posix_timer},
    {"timer-fd-expired", EARLY, expired_descriptor, tell_expired},
    {"timer-fd-real", EARLY, real_descriptor, tell_real_descriptor},
    {"eventfd-semaphore", EARLY, event_semaphore, tell_semaphore},
    {"epoll-nested", EARLY, poll_nested, tell_nested},
    {"epoll-closed", EARLY, poll_closed, tell_closed},
    {"inotify-unread", EARLY, watch_unread, tell_unread},
    {"pipe-broken", EARLY, break_pipe, tell_broken},
    {"pidfd-child", EARLY, child_descriptor, tell_child_descriptor},
    {"timer-fd", EARLY, timer_descriptor, tell_timer_descriptor},
    {"eventfd", EARLY, event_descriptor, tell_counter},
    {"epoll", EARLY, poll_events, tell_poller},
    {"inotify", EARLY, watch_file, tell_watch_file},
    {"inotify-tmpfs", EARLY, watch_memory, tell_watch_memory},
    {"inotify-program", EARLY, watch_overlay, NULL},
    {"fanotify", EARLY, watch_mount, NULL},
    {"signalfd", EARLY, signal_descriptor, tell_signals},
    {"pidfd", EARLY, pid_descriptor, NULL},
    {"pipe", EARLY, open_pipe, tell_own_pipe},
    {"pipe-packets", EARLY, packet_pipe, tell_packets},
    {"fifo", EARLY, open_fifo, tell_fifo},
    {"queue-posix", EARLY, message_queue, tell_queue},
    {"queue-sysv", EARLY, system_five_queue, tell_messages},
    {"semaphore-sysv", EARLY, system_five_semaphores, tell_semaphores},
    {"io-uring", EARLY, ring, NULL},
    {"perf-event", EARLY, perf, NULL},
    {"aio", EARLY, asynchronous, NULL},
    {"file-owner", EARLY, own_signal_of_file, tell_owner},
    {0},
};
