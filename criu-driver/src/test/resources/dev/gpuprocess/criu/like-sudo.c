// Runs a command as root, for each user that may run this program, which is setuid root. It does what sudo does: the command
// gets an environment of its own and no descriptors but the standard ones; a parent stays, which its user may signal. It
// hands a SIGTERM on unless that comes from its own process group, stops and ends as the command stops and ends.
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile pid_t command;

static void hand_on(int number, siginfo_t *sent, void *context) {
  (void)context;
  if (sent->si_pid == 0 || getpgid(sent->si_pid) != getpgrp()) kill(command, number);
}

int main(int count, char **arguments) {
  static char *environment[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};
  if (count < 2 || setresgid(0, 0, 0) != 0 || setgroups(0, NULL) != 0) {
    perror(arguments[0]);
    return 1;
  }
  for (int descriptor = 3; descriptor < sysconf(_SC_OPEN_MAX) && descriptor < 4096; descriptor++) close(descriptor);

  struct sigaction action = {.sa_sigaction = hand_on, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigset_t term, before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term, &before);
  command = fork();
  if (command == 0) {
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (setresuid(0, 0, 0) == 0) execvpe(arguments[1], arguments + 1, environment);
    perror(arguments[1]);
    _exit(127);
  }
  if (command < 0 || sigaction(SIGTERM, &action, NULL) != 0) {
    perror(arguments[0]);
    return 1;
  }
  sigprocmask(SIG_SETMASK, &before, NULL);

  int status;
  for (;;) {
    if (waitpid(command, &status, WUNTRACED) < 0) {
      if (errno != EINTR) return 1;
    } else if (WIFSTOPPED(status)) {
      kill(getpid(), WSTOPSIG(status));
    } else {
      break;
    }
  }
  if (WIFSIGNALED(status)) {
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
  }
  return WEXITSTATUS(status);
}
