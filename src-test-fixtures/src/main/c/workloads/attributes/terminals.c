/* Terminals, sessions and process groups. */
#include <fcntl.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "attributes.h"
#include "keeper.h"

static void open_terminal(void) {
  struct winsize size = {.ws_row = 33, .ws_col = 111};
  may(openpty(&terminal_master, &terminal_slave, NULL, NULL, &size));
  fcntl(terminal_master, F_SETFD, FD_CLOEXEC);
}

static void lead_terminal(void) { open_terminal(); }

static void run_in_foreground(void) {
  open_terminal();
  has_shell = true;
}

static void run_in_background(void) {
  run_in_foreground();
  is_background = true;
}

/* The standard files are a terminal, which is not the controlling one: setsid PROGRAM >/dev/pts/N. */
static void write_to_terminal(void) {
  open_terminal();
  is_background = true;
}

static void be_member(void) { has_shell = true; }

static void raw_terminal(void) {
  run_in_foreground();
  struct termios settings;
  may(tcgetattr(terminal_slave, &settings));
  settings.c_lflag &= ~(tcflag_t)(ECHO | ICANON);
  settings.c_cc[VMIN] = 5;
  may(tcsetattr(terminal_slave, TCSANOW, &settings));
}

static void tell_settings(int file) {
  struct termios settings;
  if (tcgetattr(file, &settings) < 0) {
    tell("settings %s", outcome(-1));
    return;
  }
  tell("settings %x %x %x %x min %d", settings.c_iflag, settings.c_oflag, settings.c_cflag, settings.c_lflag,
       settings.c_cc[VMIN]);
}

/*
 * The restored process may have another terminal, so its name and its size are not told, and not whether it is in the
 * foreground: the shell decides that.
 */
static void tell_terminal(void) {
  int control = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
  tell("controlling %s", outcome(control));
  if (control >= 0) close(control);
  tell("terminals %d%d%d", isatty(0), isatty(1), isatty(2));
  tell_settings(1);
}

/* Both ends in the tree, as in a terminal multiplexer with its server, or under script(1). */
static int own_master = -1;
static struct child *pane;

static void be_pane(void) {
  int slave;
  if (grantpt(own_master) < 0 || unlockpt(own_master) < 0) impossible("grantpt");
  may(setsid());
  char name[64];
  may(ptsname_r(own_master, name, sizeof name));
  slave = may(open(name, O_RDWR | O_CLOEXEC));
  may(ioctl(slave, TIOCSCTTY, 0));
  close(own_master);
  for (int number = 0; number < 3; number++) may(dup2(slave, number));
  close(slave);
}

static void tell_pane(void) {
  tell_terminal();
  struct winsize size = {0};
  may(ioctl(0, TIOCGWINSZ, &size));
  tell("size %d %d foreground %d leader %d", size.ws_row, size.ws_col, tcgetpgrp(0) == getpgrp(), getsid(0) == getpid());
}

static void open_pane(void) {
  own_master = may(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  may(ioctl(own_master, TIOCSWINSZ, &(struct winsize){.ws_row = 44, .ws_col = 99}));
  pane = start_child(be_pane, tell_pane);
}

static void tell_pane_and_master(void) {
  ask_child(pane);
  tell("master %s", outcome(fcntl(own_master, F_GETFD)));
}

const struct attribute terminal_attributes[] = {
    {"terminal-leader", TERMINAL, lead_terminal, tell_terminal},
    {"terminal-foreground", TERMINAL, run_in_foreground, tell_terminal},
    {"terminal-background", TERMINAL, run_in_background, tell_terminal},
    {"terminal-settings", TERMINAL, raw_terminal, tell_terminal},
    {"terminal-output", TERMINAL, write_to_terminal, tell_terminal},
    {"terminal-inside", EARLY, open_pane, tell_pane_and_master},
    {"session-member", TERMINAL, be_member, NULL},
    {"group-member", TERMINAL, be_member, NULL},
    {0},
};
