/* hold KIND ROWS COLUMNS COUNT -- PROGRAM [ARGUMENT]...
 * Starts CRIU for the restore of a job of a terminal, as a child of the JVM in the session of this program, with the terminal
 * as its standard input, and then holds the terminal. KIND is
 *   new      a new pseudo-terminal, which is the controlling one of a session that this program leads
 *   apart    a new pseudo-terminal that no session has: the root of the job leads a session of its own
 *   caller   the controlling terminal of the JVM; this program puts its foreground process group back, and exits
 * Descriptor 0 is a SEQPACKET socket to the JVM, on which the pid of CRIU is sent, or the negative number of an error. CRIU
 * inherits descriptors 1 and 2 and COUNT descriptors from 3 on. The next descriptor is the file to which the output of a new
 * terminal is appended, or the terminal of the JVM.
 * The kernel hangs a terminal up when the leader of its session exits or its master is closed. So this program lives as long
 * as a process has the terminal, whatever becomes of CRIU and the JVM. A SIGHUP to it hangs the terminal up. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "job.h"

enum { CONTROL = 0, OUTPUT = 1, SOCKET = 3 };
enum { PAUSE_MS = 500, CHUNK = 1 << 16 };

static void answer(int32_t value) {
  if (send(CONTROL, &value, sizeof value, MSG_NOSIGNAL) != sizeof value) _exit(3);
}

static int must(int result) {
  if (result >= 0) return result;
  answer(-errno);
  _exit(3);
}

static int new_terminal(bool controlling, const char *rows, const char *columns, int *master) {
  *master = must(open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC));
  must(unlockpt(*master));
  int slave = must(ioctl(*master, TIOCGPTPEER, O_RDWR | O_NOCTTY)); /* O_CLOEXEC would stay in the job's F_GETFL */
  must(fcntl(slave, F_SETFD, FD_CLOEXEC));
  struct winsize size = {.ws_row = (unsigned short)atoi(rows), .ws_col = (unsigned short)atoi(columns)};
  must(ioctl(slave, TIOCSWINSZ, &size));
  if (controlling) must(ioctl(slave, TIOCSCTTY, 0));
  return slave;
}

/* CRIU is a child of the JVM (CLONE_PARENT), in a process group of its own: the job may join that group, and signals to the
 * group do not reach this program. CRIU sets the foreground process group from the background, for which the kernel would
 * stop it. The restored processes have the signal actions of the image. */
static int start_criu(int slave, char **words) {
  long pid = must((int)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL));
  if (pid > 0) return (int)pid;
  setpgid(0, 0);
  signal(SIGTTOU, SIG_IGN);
  signal(SIGHUP, SIG_DFL);
  if (dup2(slave, 0) == 0) execv(words[0], words);
  dprintf(OUTPUT, "%s: %s\n", words[0], strerror(errno));
  _exit(127);
}

static bool has_terminal(const char *pid, unsigned terminal) {
  char path[300], text[1024];
  int found;
  snprintf(path, sizeof path, "/proc/%s/stat", pid);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return false;
  text[length] = 0;
  const char *after = strrchr(text, ')');
  return after != NULL && sscanf(after + 1, " %*c %*d %*d %*d %d", &found) == 1 && (unsigned)found == terminal;
}

/* Whether a process besides this one has the terminal as its controlling one, and may open it again. */
static bool in_use(unsigned terminal) {
  DIR *proc = opendir("/proc");
  if (proc == NULL) return true; /* no descriptor or memory is free now */
  bool used = false;
  const struct dirent *one;
  while (!used && (one = readdir(proc)) != NULL)
    used = isdigit((unsigned char)one->d_name[0]) && atoi(one->d_name) != getpid() && has_terminal(one->d_name, terminal);
  closedir(proc);
  return used;
}

/* Blocks while the file cannot be written, as on a full disk: the job waits then, and no output is lost. */
static void append(int log, const char *bytes, size_t count) {
  while (count > 0) {
    ssize_t written = write(log, bytes, count);
    if (written > 0) {
      bytes += written;
      count -= (size_t)written;
    } else {
      poll(NULL, 0, PAUSE_MS);
    }
  }
}

static int keep_terminal(int master, int log, unsigned terminal) {
  static char bytes[CHUNK];
  while (true) {
    ssize_t got = read(master, bytes, sizeof bytes);
    if (got > 0) {
      append(log, bytes, (size_t)got);
    } else if (errno != EINTR) { /* EIO: no process has it open */
      if (!in_use(terminal)) return 0;
      poll(NULL, 0, PAUSE_MS);
    }
  }
}

static int put_foreground_back(int terminal, int foreground) {
  char byte;
  while (recv(CONTROL, &byte, 1, 0) < 0 && errno == EINTR) continue;
  if (foreground > 0) (void)tcsetpgrp(terminal, foreground);
  return 0;
}

int hold_terminal(int argc, char **argv) {
  if (argc < 6 || strcmp(argv[4], "--") != 0) return 2;
  static const int ignored[] = {SIGTERM, SIGINT, SIGQUIT, SIGTSTP, SIGTTOU, SIGUSR1, SIGUSR2};
  bool caller = strcmp(argv[0], "caller") == 0;
  int last = SOCKET + atoi(argv[3]), master = -1, slave, foreground = -1;
  must(fcntl(last, F_SETFD, FD_CLOEXEC));
  if (caller) {
    slave = last;
    foreground = tcgetpgrp(slave);
  } else {
    slave = new_terminal(strcmp(argv[0], "new") == 0, argv[1], argv[2], &master);
  }
  struct stat found;
  must(fstat(slave, &found));
  unsigned number = (minor(found.st_rdev) & 0xff) | major(found.st_rdev) << 8 | (minor(found.st_rdev) & ~0xffu) << 12;
  int pid = start_criu(slave, argv + 5);
  /* Not before: CRIU would ignore them too. */
  for (size_t each = 0; each < sizeof ignored / sizeof *ignored; each++) signal(ignored[each], SIG_IGN);
  answer(pid);
  for (int each = OUTPUT; each < last; each++) close(each);
  if (caller) return put_foreground_back(slave, foreground);
  close(CONTROL);
  close(slave);
  if (chdir("/") != 0) return 3; /* keeps no directory of the JVM in use */
  return keep_terminal(master, last, number);
}
