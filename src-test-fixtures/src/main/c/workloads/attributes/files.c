/* Open files, their names, locks on them, and the working directory. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attributes.h"

static int file;

static void tell_text(int descriptor) {
  char text[16] = "";
  ssize_t length = pread(descriptor, text, 5, 0);
  struct stat state = {0};
  fstat(descriptor, &state);
  tell("text %s %s size %ld mode %o links %d", outcome(length), text, (long)state.st_size, state.st_mode, (int)state.st_nlink);
}

static void open_deleted(void) {
  file = own_file("deleted", "hello");
  may(unlink(own_path("deleted")));
}
static void tell_file(void) { tell_text(file); }

static int large;
static void open_large_deleted(void) {
  large = own_file("large", "hello");
  may(ftruncate(large, 3 << 20));
  char *some = calloc(1, 2 << 20);
  memset(some, 3, 2 << 20);
  may(pwrite(large, some, 2 << 20, 4096));
  free(some);
  may(unlink(own_path("large")));
}
static void tell_large(void) { tell_text(large); }

static int renamed;
static void open_renamed(void) {
  renamed = own_file("before", "hello");
  may(rename(own_path("before"), own_path("after")));
}
static void tell_renamed(void) { tell_text(renamed); }

static int second;
static void open_second_name(void) {
  second = own_file("one-name", "hello");
  may(link(own_path("one-name"), own_path("other-name")));
  may(unlink(own_path("one-name")));
}
static void tell_second(void) {
  char text[8] = "";
  ssize_t length = pread(second, text, 5, 0);
  tell("text %s %s", outcome(length), text);
  struct stat open_state = {0}, state = {0};
  fstat(second, &open_state);
  tell("same file %d", stat(own_path("other-name"), &state) == 0 && state.st_ino == open_state.st_ino);
}

static int replaced;
static void open_replaced(void) {
  replaced = own_file("replaced", "hello");
  close(own_file("new", "other"));
  may(rename(own_path("new"), own_path("replaced")));
}
static void tell_replaced(void) {
  tell_text(replaced);
  tell("name %s", first_line(own_path("replaced")));
}

static int nameless;
static void open_nameless(void) {
  nameless = may(open(own_path("."), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  may(write(nameless, "hello", 5));
}
static void tell_nameless(void) { tell_text(nameless); }

static int log_file;
static void open_log(void) {
  close(own_file("log", "hello"));
  log_file = may(open(own_path("log"), O_WRONLY | O_APPEND | O_NOATIME | O_CLOEXEC));
}
static void tell_log(void) { tell("append %s", outcome(write(log_file, "", 0))); }

static void open_direct(void) { may(open(own_path("ready.direct"), O_RDWR | O_CREAT | O_DIRECT | O_SYNC | O_NONBLOCK, 0600)); }
static void open_path_only(void) { may(open(own_path("."), O_PATH | O_CLOEXEC)); }
static void open_directory(void) { may(open(own_path("."), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); }
static void open_proc(void) { may(open("/proc/self/maps", O_RDONLY | O_CLOEXEC)); }
static void open_sys(void) { may(open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC)); }
static void open_high(void) {
  int null = may(open("/dev/null", O_WRONLY | O_CLOEXEC));
  may(dup2(null, 1000));
  close(null);
}
static void close_standard(void) {
  for (int number = 0; number < 3; number++) close(number);
}
static void open_zero(void) { may(open("/dev/zero", O_RDONLY | O_CLOEXEC)); }
static void open_full(void) { may(open("/dev/full", O_WRONLY | O_CLOEXEC)); }
static void open_random(void) { may(open("/dev/urandom", O_RDONLY)); }
static void open_messages(void) { may(open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)); }
static void open_fuse(void) { may(open("/dev/fuse", O_RDWR | O_CLOEXEC)); }
static void open_tunnel(void) { may(open("/dev/net/tun", O_RDWR | O_CLOEXEC)); }

static void open_null(void) { may(open("/dev/null", O_RDWR | O_APPEND)); }
static void open_master(void) { may(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)); }
static void open_clock(void) { may(open("/dev/rtc0", O_RDONLY | O_CLOEXEC)); }
static void open_loop(void) { may(open("/dev/loop-control", O_RDWR | O_CLOEXEC)); }
static void open_tree_of_mounts(void) { may(syscall(SYS_open_tree, AT_FDCWD, "/", 1 /* OPEN_TREE_CLONE */)); }
static void open_bpf_map(void) {
  struct {
    unsigned type, key, value, entries, rest[20];
  } array = {2, 4, 8, 3, {0}};
  may(syscall(SYS_bpf, 0 /* BPF_MAP_CREATE */, &array, sizeof array));
}
static void open_rules(void) {
  unsigned long rights = 2;
  may(syscall(SYS_landlock_create_ruleset, &rights, sizeof rights, 0));
}

static void open_of_dead(void) {
  pid_t dead = may(fork());
  if (dead == 0)
    for (;;) pause();
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/stat", dead);
  int of_dead = open(path, O_RDONLY | O_CLOEXEC);
  kill(dead, SIGKILL);
  waitpid(dead, NULL, 0);
  may(of_dead);
}

static int left_directory;
static void open_left(void) {
  may(mkdir(own_path("left-open"), 0755));
  left_directory = may(open(own_path("left-open"), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  may(rmdir(own_path("left-open")));
}
static void tell_left(void) {
  struct stat state;
  tell("directory %s", outcome(fstat(left_directory, &state)));
}

static int listed;
static void read_some_names(void) {
  may(mkdir(own_path("names"), 0755));
  for (int i = 0; i < 5; i++) {
    char inside[16];
    snprintf(inside, sizeof inside, "names/%d", i);
    close(own_file(inside, ""));
  }
  listed = may(open(own_path("names"), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  /* One name at a time: the buffer of the kernel's call has room for no more. */
  char entry[32];
  for (int i = 0; i < 3; i++) may(syscall(SYS_getdents64, listed, entry, sizeof entry));
}
static void tell_rest(void) {
  long at = lseek(listed, 0, SEEK_CUR);
  char entries[512];
  long length = syscall(SYS_getdents64, listed, entries, sizeof entries);
  tell("rest %ld", length);
  lseek(listed, at, SEEK_SET);
}

static int leased;
static void write_lease(void) {
  leased = may(open(own_path("leased-alone"), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  may(fcntl(leased, F_SETLEASE, F_WRLCK));
}

static struct child *locker;
static void lock_in_child(void) {
  int own = may(open(own_path("locked-by-child"), O_RDWR | O_CREAT, 0600));
  struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
  may(fcntl(own, F_SETLK, &range));
}
static void child_locks(void) { locker = start_child(lock_in_child, NULL); }
static void tell_child_lock(void) {
  int own = open(own_path("locked-by-child"), O_RDWR | O_CLOEXEC);
  struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
  fcntl(own, F_GETLK, &range);
  tell("range %d", range.l_type);
  close(own);
}

static void enter_deleted(void) {
  may(mkdir(own_path("left"), 0755));
  may(chdir(own_path("left")));
  may(rmdir(own_path("left")));
}
static void tell_deleted_directory(void) {
  struct stat state;
  tell("directory %s", outcome(stat(".", &state)));
}
static void enter_own(void) { may(chdir(own_path("."))); }

static int hidden;
static void hide(void) {
  may(mkdir(own_path("hidden"), 0755));
  hidden = own_file("hidden/file", "hello");
}
/* By the keeper's mounts: a tmpfs over the directory of an open file. */
static void tell_hidden(void) { tell_text(hidden); }

/* Locks; a child tries whether they are held. */
static int locked;
static struct child *rival;

static void tell_locks(void) {
  int own = open(own_path("locked"), O_RDWR | O_CLOEXEC);
  tell("flock %s", outcome(flock(own, LOCK_EX | LOCK_NB)));
  flock(own, LOCK_UN);
  struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
  fcntl(own, F_GETLK, &range);
  tell("range %d", range.l_type);
  close(own);
}

static void start_rival(void) {
  if (!rival) {
    locked = own_file("locked", "");
    rival = start_child(NULL, tell_locks);
  }
}
static void lock_all(void) {
  start_rival();
  may(flock(locked, LOCK_SH));
}
static void lock_range(int command) {
  start_rival();
  struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
  may(fcntl(locked, command, &range));
}
static void lock_by_process(void) { lock_range(F_SETLK); }
static void lock_by_description(void) { lock_range(F_OFD_SETLK); }
static void tell_rival(void) { ask_child(rival); }

static void take_lease(void) {
  close(own_file("leased", ""));
  leased = may(open(own_path("leased"), O_RDONLY | O_CLOEXEC));
  may(fcntl(leased, F_SETLEASE, F_RDLCK));
}
static void tell_lease(void) { tell("lease %d", fcntl(leased, F_GETLEASE)); }

const struct attribute file_attributes[] = {
    {"file-deleted", EARLY, open_deleted, tell_file},
    {"file-deleted-large", EARLY, open_large_deleted, tell_large},
    {"file-renamed", EARLY, open_renamed, tell_renamed},
    {"file-second-name", EARLY, open_second_name, tell_second},
    {"file-replaced", EARLY, open_replaced, tell_replaced},
    {"file-tmpfile", EARLY, open_nameless, tell_nameless},
    {"file-append", EARLY, open_log, tell_log},
    {"file-direct", EARLY, open_direct, NULL},
    {"file-path-only", EARLY, open_path_only, NULL},
    {"file-directory", EARLY, open_directory, NULL},
    {"file-proc", EARLY, open_proc, NULL},
    {"file-sys", EARLY, open_sys, NULL},
    {"file-high-number", EARLY, open_high, NULL},
    {"file-none", EARLY, close_standard, NULL},
    {"file-kept", EARLY, hide, tell_hidden},
    {"device-zero", EARLY, open_zero, NULL},
    {"device-full", EARLY, open_full, NULL},
    {"device-random", EARLY, open_random, NULL},
    {"device-kmsg", EARLY, open_messages, NULL},
    {"device-fuse", EARLY, open_fuse, NULL},
    {"device-null", EARLY, open_null, NULL},
    {"device-ptmx", EARLY, open_master, NULL},
    {"device-rtc", EARLY, open_clock, NULL},
    {"device-loop", EARLY, open_loop, NULL},
    {"fd-mounts", EARLY, open_tree_of_mounts, NULL},
    {"fd-bpf", EARLY, open_bpf_map, NULL},
    {"fd-landlock", EARLY, open_rules, NULL},
    {"file-of-dead", EARLY, open_of_dead, NULL},
    {"file-left-directory", EARLY, open_left, tell_left},
    {"file-listing", EARLY, read_some_names, tell_rest},
    {"device-tun", EARLY, open_tunnel, NULL},
    {"cwd-deleted", EARLY, enter_deleted, tell_deleted_directory},
    {"cwd", EARLY, enter_own, NULL},
    {"lock-flock", EARLY, lock_all, tell_rival},
    {"lock-posix", EARLY, lock_by_process, tell_rival},
    {"lock-ofd", EARLY, lock_by_description, tell_rival},
    {"lock-lease-write", EARLY, write_lease, tell_lease},
    {"lock-child", EARLY, child_locks, tell_child_lock},
    {"lock-lease", EARLY, take_lease, tell_lease},
    {0},
};
