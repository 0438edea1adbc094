/*
 * The keeper: outside the tree. It sets up what is outside (a control group, a mount, the terminal and the shell), starts the
 * root and reaps it, and stays until it gets SIGTERM. At SIGUSR1 it closes the terminal, as a window that is closed.
 *
 * keeper -> [shell, leads the session] -> root (executes this program again with --inside)
 *
 * It can run a command in a terminal, too: then DIRECTORY has "output", and "exit" with the exit code.
 */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <time.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attributes.h"
#include "keeper.h"

int terminal_master = -1, terminal_slave = -1;
bool has_shell, is_background, has_init;
static char **arguments, **command;
enum { LOW_NUMBERS = 8 };
static int low[LOW_NUMBERS];

static void write_pid(const char *name, int number) {
  char text[16];
  snprintf(text, sizeof text, "%d", number);
  close(own_file("number.new", text));
  if (rename(own_path("number.new"), own_path(name)) < 0) _exit(3);
}

static void standard_files(int file) {
  for (int number = 0; number < 3; number++)
    if (dup2(file, number) < 0) _exit(3);
}

/* After the last stage before: executes the program that the attributes chose, /proc/self/exe if none. */
static void execute(void) {
  enter_group();
  set_up_stage(BEFORE_EXEC);
  size_t count = 0;
  while (arguments[count]) count++;
  char **all = calloc(count + 2, sizeof *all);
  all[0] = arguments[0];
  all[1] = "--inside";
  for (size_t i = 1; i < count; i++) all[i + 1] = arguments[i];
  execute_program(all);
  impossible("exec: %s", strerror(errno));
}

_Noreturn static void be_root(void) {
  int other = open("/dev/null", O_RDWR);
  bool terminal = terminal_slave >= 0;
  standard_files(terminal ? terminal_slave : other);
  if (terminal_slave > 2) close(terminal_slave);
  if (other > 2) close(other);
  if (terminal_master > 2) close(terminal_master);
  signal(SIGTTOU, SIG_DFL);
  if (command) {
    execvp(command[0], command);
    _exit(127);
  }
  if (has_init) {
    /* The root is the first process of a pid namespace, below a process that waits for it. */
    may(unshare(CLONE_NEWPID));
    pid_t pid = may(fork());
    if (pid != 0) {
      write_pid("pid", pid);
      while (waitpid(pid, NULL, 0) != pid && errno == EINTR) {
      }
      _exit(0);
    }
    setsid();
  }
  execute();
  _exit(3);
}

static void be_shell(void) {
  may(setsid());
  if (terminal_slave >= 0) may(ioctl(terminal_slave, TIOCSCTTY, 0));
  pid_t pid = may(fork());
  if (pid == 0) {
    bool member = has("group-member");
    if (!member) setpgid(0, 0);
    if (terminal_slave >= 0 && !is_background) {
      signal(SIGTTOU, SIG_IGN);
      tcsetpgrp(terminal_slave, getpgrp());
    }
    be_root();
  }
  if (!has_init) write_pid("pid", pid);
  int status = 0;
  while (waitpid(pid, &status, 0) != pid) {
  }
  write_pid("exit", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  for (;;) pause();
}

static volatile sig_atomic_t hang_up, end;
static void on_signal(int number) {
  if (number == SIGUSR1) hang_up = 1;
  if (number == SIGTERM) end = 1;
}

static void drain(void) {
  char text[4096];
  struct pollfd one = {.fd = terminal_master, .events = POLLIN};
  if (terminal_master >= 0 && poll(&one, 1, 20) > 0) {
    ssize_t length = read(terminal_master, text, sizeof text);
    int output = open(own_path("output"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (length < 0 || write(output, text, length) != length) pause_shortly();
    close(output);
  } else if (terminal_master < 0) {
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  }
}

int keep_command(char **argv) {
  /* A restore needs the number that a terminal inside the tree had: the terminal of the command gets a higher one. */
  for (int i = 0; i < LOW_NUMBERS; i++) low[i] = may(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  command = argv;
  return keep((char *[]){"attributes", NULL});
}

int keep(char **argv) {
  arguments = argv;
  chmod(own_path("."), 0777);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  set_up_stage(OUTSIDE);
  set_up_stage(TERMINAL);
  for (int i = 0; i < LOW_NUMBERS && command; i++) close(low[i]);
  pid_t pid = may(fork());
  if (pid == 0) {
    signal(SIGUSR1, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (has_shell) be_shell();
    may(setsid());
    if (terminal_slave >= 0 && !is_background) may(ioctl(terminal_slave, TIOCSCTTY, 0));
    be_root();
  }
  if (!has_shell && !has_init) write_pid("pid", pid);
  if (terminal_slave >= 0) close(terminal_slave);
  terminal_slave = -1;
  while (!end) {
    drain();
    if (pid > 0 && waitpid(pid, NULL, WNOHANG) == pid) pid = -1;
    if (hang_up && terminal_master >= 0) {
      close(terminal_master);
      terminal_master = -1;
    }
  }
  if (has_shell && pid > 0) kill(pid, SIGKILL);
  undo_outside();
  return 0;
}
