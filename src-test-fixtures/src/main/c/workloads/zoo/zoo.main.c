/*
 * zoo list             prints a line for each specimen: its name and what a dump of it needs
 * zoo NAME FILE        runs one, in a session of its own, until it is killed
 *
 * FILE has 256 bytes: at 0 what there is to say, "tick N ok", "tick N verified", "bad: ..." or "impossible: ...", padded
 * with blanks; at 200 the pid that a dump begins with; at 255 a '?' that asks for the one thorough check.
 * N is counted in memory, so it goes on after a restore and begins again after a restart.
 */
#include "zoo.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SAY_SIZE = 200, ROOT_AT = 200, ASKED_AT = 255, FILE_SIZE = 256 };

static const struct specimen *const GROUPS[] = {
    thread_specimens, pipe_specimens, timer_specimens,  event_specimens,   memory_specimens,
    socket_specimens, file_specimens, signal_specimens, process_specimens, namespace_specimens,
};
enum { GROUP_COUNT = sizeof GROUPS / sizeof GROUPS[0] };

static int status = -1;
static const char *status_path;

static void say(const char *format, va_list arguments) {
  char text[SAY_SIZE + 1];
  int length = vsnprintf(text, sizeof text, format, arguments);
  if (length < SAY_SIZE) memset(text + length, ' ', SAY_SIZE - length);
  if (pwrite(status, text, SAY_SIZE, 0) != SAY_SIZE) _exit(2);
}

static void report(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
}

void bad(const char *format, ...) {
  char text[SAY_SIZE + 1] = "bad: ";
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + 5, sizeof text - 5, format, arguments);
  va_end(arguments);
  report("%s", text);
  kill(0, SIGKILL); /* all of this session's first group; the tree must not tick on beside a broken member */
  _exit(1);
}

void impossible(const char *format, ...) {
  char text[SAY_SIZE + 1] = "impossible: ";
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + 12, sizeof text - 12, format, arguments);
  va_end(arguments);
  report("%s", text);
  _exit(77);
}

long must_not_fail(long result, const char *call) {
  if (result < 0) bad("%s: %s", call, strerror(errno));
  return result;
}

long may_fail(long result, const char *call) {
  if (result < 0) impossible("%s: %s", call, strerror(errno));
  return result;
}

char *own_path(const char *suffix) {
  char *path = NULL;
  if (asprintf(&path, "%s.%s", status_path, suffix) < 0) bad("no memory");
  return path;
}

pid_t child(void (*body)(void)) {
  pid_t pid = must(fork());
  if (pid == 0) {
    body();
    _exit(0);
  }
  return pid;
}

void *shared_memory(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) bad("mmap: %s", strerror(errno));
  return memory;
}

bool is_readable(int descriptor, int milliseconds) {
  struct pollfd one = {.fd = descriptor, .events = POLLIN};
  int ready;
  do ready = poll(&one, 1, milliseconds);
  while (ready < 0 && errno == EINTR);
  return must(ready) == 1;
}

void rest(void) {
  struct timespec pause = {.tv_nsec = 2000000};
  nanosleep(&pause, NULL);
}

static bool asked(void) {
  char byte = 0;
  return pread(status, &byte, 1, ASKED_AT) == 1 && byte == '?';
}

_Noreturn static void live(const struct specimen *specimen) {
  bool verified = false;
  specimen->set_up();
  for (unsigned long tick = 1;; tick++) {
    specimen->check();
    if (!verified && asked()) {
      if (specimen->verify) specimen->verify();
      verified = true;
    }
    report("tick %010lu %s", tick, verified ? "verified" : "ok");
    rest();
  }
}

static void tell_root(pid_t pid) {
  char text[16];
  int length = snprintf(text, sizeof text, "%d ", pid);
  must(pwrite(status, text, length, ROOT_AT));
}

static void reopen_standard_files(void) {
  for (int number = 0; number < 3; number++) {
    int null = must(open("/dev/null", O_RDWR));
    if (null != number) {
      must(dup2(null, number));
      must(close(null));
    }
  }
}

static void copy_file(const char *from, const char *to) {
  int in = must(open(from, O_RDONLY | O_CLOEXEC)), out = must(open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755));
  char buffer[65536];
  for (ssize_t size; (size = must(read(in, buffer, sizeof buffer))) > 0;)
    if (write(out, buffer, size) != size) bad("%s: %s", to, strerror(errno));
  must(close(in));
  must(close(out));
}

/*
 * A root of its own, as a container has: FILE.root, which holds this program, the same status file and next to nothing
 * else, and none of the mounts outside. A restore needs the directory as its root, mounted.
 */
static void move_into_root(const char *program) {
  const char *root = own_path("root");
  must(mkdir(root, 0755));
  must(link(status_path, own_path("root/status")));
  copy_file(program, own_path("root/zoo"));
  must(mkdir(own_path("root/proc"), 0755));
  must(mkdir(own_path("root/dev"), 0755));
  must(mkdir(own_path("root/old"), 0755));
  must(mknod(own_path("root/dev/null"), S_IFCHR | 0666, makedev(1, 3)));
  must(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
  must(mount(root, root, NULL, MS_BIND, NULL));
  must(chdir(root));
  must(syscall(SYS_pivot_root, ".", "old"));
  must(umount2("/old", MNT_DETACH));
}

/*
 * Starts this program again as the first process of new namespaces. Again, because what is open or mapped now belongs to
 * the old mounts. The parent stays outside and reaps it.
 */
static void live_in_namespaces(const struct specimen *specimen) {
  char program[4096] = "";
  must(readlink("/proc/self/exe", program, sizeof program - 1));
  may(unshare(specimen->namespaces));
  pid_t pid = must(fork());
  if (pid == 0) {
    bool root = specimen->namespaces & CLONE_NEWNS;
    if (root) move_into_root(program);
    must(execl(root ? "/zoo" : program, "zoo", specimen->name, root ? "/status" : status_path, "inside", NULL));
  }
  tell_root(pid);
  int how = 0;
  waitpid(pid, &how, 0);
}

static void list(void) {
  for (int group = 0; group < GROUP_COUNT; group++)
    for (const struct specimen *each = GROUPS[group]; each->name; each++) printf("%s %s\n", each->name, each->needs);
}

static const struct specimen *find(const char *name) {
  for (int group = 0; group < GROUP_COUNT; group++)
    for (const struct specimen *each = GROUPS[group]; each->name; each++)
      if (strcmp(each->name, name) == 0) return each;
  return NULL;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "list") == 0) {
    list();
    return 0;
  }
  bool inside = argc == 4 && strcmp(argv[3], "inside") == 0;
  const struct specimen *specimen = argc == 3 || inside ? find(argv[1]) : NULL;
  if (!specimen) {
    fprintf(stderr, "usage: zoo list | zoo NAME FILE\n");
    return 2;
  }
  status_path = argv[2];
  status = open(status_path, O_RDWR | O_CREAT | O_CLOEXEC | (inside ? 0 : O_TRUNC), 0600);
  if (status < 0 || ftruncate(status, FILE_SIZE) < 0) {
    perror(status_path);
    return 2;
  }
  setsid();
  if (inside) reopen_standard_files();
  if (specimen->namespaces && !inside) {
    live_in_namespaces(specimen);
  } else {
    if (!inside) tell_root(getpid());
    live(specimen);
  }
}
