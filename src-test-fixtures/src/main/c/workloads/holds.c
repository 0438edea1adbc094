#include "holds.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "udp.h"

/* Each takes the words after its name and returns a descriptor or an address, or -1 with errno. */
typedef intptr_t holder(const char *file, long size);

static intptr_t open_file(const char *file, long size) {
  (void)size;
  int flags[] = {O_RDWR, O_RDONLY, O_WRONLY};
  int fd = -1;
  for (int i = 0; i < 3 && fd < 0; i++) fd = open(file, flags[i] | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  return fd;
}

static intptr_t map_file(const char *file, long size) {
  (void)size;
  int fd = (int)open_file(file, 0);
  if (fd < 0) return -1;
  int protections[] = {PROT_READ, PROT_NONE};
  void *address = MAP_FAILED;
  for (int i = 0; i < 2 && address == MAP_FAILED; i++)
    address = mmap(NULL, (size_t)getpagesize(), protections[i], MAP_SHARED, fd, 0);
  close(fd);
  return (intptr_t)address;
}

static int make_file(const char *file) { return open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600); }

static intptr_t lock_file(const char *file, long size) {
  (void)size;
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  int fd = make_file(file);
  return fd < 0 || fcntl(fd, F_SETLK, &lock) != 0 ? -1 : fd;
}

static intptr_t flock_file(const char *file, long size) {
  (void)size;
  int fd = make_file(file);
  return fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0 ? -1 : fd;
}

static intptr_t lease_file(const char *file, long size) {
  (void)size;
  int fd = make_file(file);
  return fd < 0 || fcntl(fd, F_SETLEASE, F_WRLCK) != 0 ? -1 : fd;
}

static intptr_t deleted_file(const char *file, long size) {
  int fd = make_file(file);
  char block[4096];
  memset(block, 'x', sizeof block);
  if (fd < 0) return -1;
  for (long left = size; left > 0; left -= (long)sizeof block)
    if (write(fd, block, left < (long)sizeof block ? (size_t)left : sizeof block) < 0) return -1;
  return unlink(file) == 0 ? fd : -1;
}

static intptr_t sparse_file(const char *file, long size) {
  int fd = make_file(file);
  return fd < 0 || ftruncate(fd, size) != 0 || unlink(file) != 0 ? -1 : fd;
}

static intptr_t renamed_file(const char *file, long size) {
  (void)size;
  char other[ANSWER_SIZE + 8];
  snprintf(other, sizeof other, "%s.other", file);
  int fd = make_file(file);
  return fd < 0 || link(file, other) != 0 || unlink(file) != 0 ? -1 : fd;
}

static int listener(struct sockaddr_in *address) {
  socklen_t length = sizeof *address;
  memset(address, 0, sizeof *address);
  address->sin_family = AF_INET;
  address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return fd < 0 || bind(fd, (struct sockaddr *)address, length) != 0 || listen(fd, 4) != 0
          || getsockname(fd, (struct sockaddr *)address, &length) != 0
      ? -1 : fd;
}

static int connected(const struct sockaddr_in *address) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 ? -1 : fd;
}

static intptr_t tcp_listen(const char *file, long size) {
  struct sockaddr_in address;
  (void)file, (void)size;
  return listener(&address);
}

static intptr_t multipath(const char *file, long size) {
  (void)file, (void)size;
  return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 262 /* IPPROTO_MPTCP */);
}

/* The connection is there for its maker a moment before it waits to be accepted. */
static intptr_t tcp_pending(const char *file, long size) {
  struct sockaddr_in address;
  (void)file, (void)size;
  int fd = listener(&address);
  struct pollfd waiting = {.fd = fd, .events = POLLIN};
  return fd < 0 || connected(&address) < 0 || poll(&waiting, 1, -1) != 1 ? -1 : fd;
}

static intptr_t tcp(const char *file, long size) {
  struct sockaddr_in address;
  (void)file, (void)size;
  int server = listener(&address);
  int client = server < 0 ? -1 : connected(&address);
  int accepted = client < 0 ? -1 : accept4(server, NULL, NULL, SOCK_CLOEXEC);
  if (server >= 0) close(server);
  return accepted < 0 ? -1 : client;
}

static intptr_t unix_pair(const char *file, long size) {
  int pair[2];
  (void)file, (void)size;
  return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 ? pair[0] : -1;
}

/* A name that begins with @ is not a file. */
static struct sockaddr_un name_of(const char *file) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%.*s", (int)sizeof address.sun_path - 1, file);
  if (file[0] == '@') address.sun_path[0] = '\0';
  return address;
}

static intptr_t unix_to(const char *file, int type) {
  struct sockaddr_un address = name_of(file);
  int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  return fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0 ? -1 : fd;
}

static intptr_t unix_stream(const char *file, long size) {
  (void)size;
  return unix_to(file, SOCK_STREAM);
}

static intptr_t unix_send(const char *file, long size) {
  (void)size;
  return unix_to(file, SOCK_DGRAM);
}

static intptr_t unix_bind(const char *file, long size) {
  (void)size;
  struct sockaddr_un address = name_of(file);
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  return fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ? -1 : fd;
}

static intptr_t sysv(const char *file, long size) {
  (void)file, (void)size;
  int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
  void *address = id < 0 ? (void *)-1 : shmat(id, NULL, 0);
  if (id >= 0) shmctl(id, IPC_RMID, NULL);
  return (intptr_t)address;
}

static intptr_t ring(const char *file, long size) {
  struct io_uring_params parameters;
  (void)file, (void)size;
  memset(&parameters, 0, sizeof parameters);
  return syscall(SYS_io_uring_setup, 1, &parameters);
}

static intptr_t aio(const char *file, long size) {
  unsigned long context = 0;
  (void)file, (void)size;
  return syscall(SYS_io_setup, 1, &context) == 0 ? (intptr_t)context : -1;
}

static intptr_t perf(const char *file, long size) {
  struct perf_event_attr attributes;
  (void)file, (void)size;
  memset(&attributes, 0, sizeof attributes);
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_DUMMY;
  attributes.exclude_kernel = 1;
  return syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static intptr_t perf_map(const char *file, long size) {
  int fd = (int)perf(file, size);
  if (fd < 0) return -1;
  void *address = mmap(NULL, 2 * (size_t)getpagesize(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return (intptr_t)address;
}

static intptr_t master(const char *file, long size) {
  (void)file, (void)size;
  int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  return fd < 0 || unlockpt(fd) != 0 ? -1 : fd;
}

static intptr_t trace(const char *pid, long size) {
  (void)size;
  return ptrace(PTRACE_SEIZE, atoi(pid), NULL, NULL) == 0 ? 1 : -1;
}

/* Holds one thread of another process still, until this process ends. */
static intptr_t halt(const char *thread, long size) {
  pid_t tid = atoi(thread);
  (void)size;
  return ptrace(PTRACE_SEIZE, tid, NULL, NULL) == 0 && ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) == 0
          && waitpid(tid, NULL, __WALL) == tid
      ? 1 : -1;
}

/* Each has another name, which is gone while the file is not. */
static intptr_t many_renamed(const char *file, long size) {
  char name[ANSWER_SIZE + 32];
  intptr_t fd = -1;
  while (size-- > 0) {
    snprintf(name, sizeof name, "%s-%ld", file, size);
    if ((fd = renamed_file(name, 0)) < 0) return -1;
  }
  return fd;
}

/* Each is a mapping of its own. */
static intptr_t many_mapped(const char *file, long size) {
  intptr_t address = -1;
  while (size-- > 0)
    if ((address = map_file(file, 0)) == -1) return -1;
  return address;
}

static intptr_t many(const char *file, long size) {
  int fd = -1;
  while (size-- > 0)
    if ((fd = (int)open_file(file, 0)) < 0) return -1;
  return fd;
}

static intptr_t fault(const char *file, long size) {
  (void)file, (void)size;
  return syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
}

static intptr_t event(const char *file, long size) {
  (void)file, (void)size;
  return eventfd(1, EFD_CLOEXEC);
}

static intptr_t epoll(const char *file, long size) {
  (void)file, (void)size;
  return epoll_create1(EPOLL_CLOEXEC);
}

static intptr_t timer(const char *file, long size) {
  (void)file, (void)size;
  return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
}

static intptr_t signals(const char *file, long size) {
  sigset_t set;
  (void)file, (void)size;
  sigemptyset(&set);
  return signalfd(-1, &set, SFD_CLOEXEC);
}

static intptr_t watch(const char *file, long size) {
  (void)file, (void)size;
  return inotify_init1(IN_CLOEXEC);
}

static intptr_t memory(const char *file, long size) {
  (void)file, (void)size;
  return memfd_create("held", MFD_CLOEXEC);
}

static intptr_t self(const char *file, long size) {
  (void)file, (void)size;
  return syscall(SYS_pidfd_open, getpid(), 0);
}

static const struct {
  const char *name;
  holder *take;
} HOLDERS[] = {
    {"open", open_file}, {"map", map_file}, {"lock", lock_file}, {"flock", flock_file}, {"lease", lease_file},
    {"deleted", deleted_file}, {"sparse", sparse_file}, {"renamed", renamed_file}, {"tcp", tcp},
    {"tcp-pending", tcp_pending}, {"tcp-listen", tcp_listen}, {"mptcp", multipath}, {"unix-pair", unix_pair}, {"unix-to", unix_stream},
    {"unix-bind", unix_bind}, {"unix-send", unix_send}, {"sysv", sysv}, {"io_uring", ring}, {"perf", perf}, {"aio", aio},
    {"userfaultfd", fault}, {"eventfd", event}, {"epoll", epoll}, {"timerfd", timer}, {"signalfd", signals},
    {"inotify", watch}, {"memfd", memory}, {"pidfd", self}, {"perf-map", perf_map}, {"master", master},
    {"trace", trace}, {"many", many}, {"halt", halt},
    {"many-renamed", many_renamed}, {"many-mapped", many_mapped},
};

bool hold(const char *request, char *reply) {
  char name[32] = "", file[ANSWER_SIZE] = "";
  long size = 0;
  if (sscanf(request, "%31s %511s %ld", name, file, &size) < 1) return false;
  for (size_t i = 0; i < sizeof HOLDERS / sizeof *HOLDERS; i++) {
    if (strcmp(name, HOLDERS[i].name) != 0) continue;
    intptr_t held = HOLDERS[i].take(file, size);
    if (held == -1) snprintf(reply, ANSWER_SIZE, "error: %s", strerror(errno));
    else if (held < 1 << 20) snprintf(reply, ANSWER_SIZE, "%ld", (long)held);
    else snprintf(reply, ANSWER_SIZE, "%lx", (long)held);
    return true;
  }
  return false;
}
