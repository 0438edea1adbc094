/* Pipes and terminals. */
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "zoo.h"

static int in, out;

/* There are always some numbers on the way, and they must arrive in order. */
enum { ON_THE_WAY = 100 };
static int next_in, next_out;

static void send_number(void) {
  expect(write(out, &next_out, sizeof next_out) == sizeof next_out);
  next_out++;
}

static void receive_number(void) {
  int got = -1;
  expect(read(in, &got, sizeof got) == sizeof got);
  if (got != next_in) bad("received %d instead of %d", got, next_in);
  next_in++;
}

static void fill(void) {
  for (int i = 0; i < ON_THE_WAY; i++) send_number();
}

static void pass_numbers(void) {
  send_number();
  receive_number();
}

static void empty(void) {
  while (next_in < next_out) receive_number();
  int waiting = -1;
  must(ioctl(in, FIONREAD, &waiting));
  expect(waiting == 0);
}

static void open_pipe(void) {
  int ends[2];
  must(pipe2(ends, O_CLOEXEC));
  in = ends[0];
  out = ends[1];
  must(fcntl(out, F_SETPIPE_SZ, 128 << 10));
  must(fcntl(in, F_SETFL, O_NONBLOCK));
  fill();
}

static void pass_through_pipe(void) {
  pass_numbers();
  expect(fcntl(out, F_GETPIPE_SZ) == 128 << 10);
  expect(fcntl(in, F_GETFD) == FD_CLOEXEC);
  expect(fcntl(in, F_GETFL) & O_NONBLOCK);
  expect(!(fcntl(out, F_GETFL) & O_NONBLOCK));
}

static void open_fifo(void) {
  const char *path = own_path("fifo");
  must(mkfifo(path, 0600));
  in = must(open(path, O_RDONLY | O_NONBLOCK));
  out = must(open(path, O_WRONLY));
  fill();
}

/* Parent to child and back, through two pipes; the child sleeps in read. */
static void echo(void) {
  for (;;) {
    int number;
    expect(read(in, &number, sizeof number) == sizeof number);
    expect(write(out, &number, sizeof number) == sizeof number);
  }
}

static void open_echo(void) {
  int to[2], from[2];
  must(pipe(to));
  must(pipe(from));
  in = to[0];
  out = from[1];
  child(echo);
  must(close(to[0]));
  must(close(from[1]));
  in = from[0];
  out = to[1];
}

/* A terminal whose both ends are ours: what is typed, what it is set to, how large it is. */
static struct winsize size = {.ws_row = 17, .ws_col = 71};

/* The kernel gives out the lowest number that is free, and a restore needs the one that was dumped: each specimen that has a
 * terminal takes one above the numbers that other processes and the other specimen may take, and below 32, where CRIU
 * gives up opening one after the other. */
enum { PTY_NUMBER = 16, PTY_SESSION_NUMBER = 24 };

static void open_pair(int *master, int *terminal, unsigned lowest) {
  int below[PTY_SESSION_NUMBER], held = 0;
  unsigned number = 0;
  for (;;) {
    must(openpty(master, terminal, NULL, NULL, &size));
    must(ioctl(*master, TIOCGPTN, &number));
    if (number >= lowest) break;
    must(close(*terminal));
    below[held++] = *master;
  }
  while (held > 0) must(close(below[--held]));
}

static void open_terminal(void) {
  open_pair(&out, &in, PTY_NUMBER);
  struct termios settings;
  must(tcgetattr(in, &settings));
  cfmakeraw(&settings);
  settings.c_cc[VMIN] = 1;
  settings.c_cc[VTIME] = 7;
  must(tcsetattr(in, TCSANOW, &settings));
}

static void use_terminal(void) {
  pass_numbers();
  struct winsize now;
  struct termios settings;
  must(ioctl(in, TIOCGWINSZ, &now));
  expect(now.ws_row == size.ws_row && now.ws_col == size.ws_col);
  must(tcgetattr(in, &settings));
  expect(settings.c_cc[VTIME] == 7);
  expect(!(settings.c_lflag & (ICANON | ECHO)));
}

/* A shell's situation: a child that leads a session of its own on a terminal whose master the parent holds. */
static atomic_int *interrupts;
static pid_t shell;
static int shell_terminal;

static void interrupted(int signal) {
  (void)signal;
  (*interrupts)++;
}

static void be_shell(void) {
  signal(SIGINT, interrupted);
  must(setsid());
  must(close(out));
  must(ioctl(shell_terminal, TIOCSCTTY, 0));
  (*interrupts)++;
  for (;;) pause();
}

static void open_session_terminal(void) {
  interrupts = shared_memory(4096);
  open_pair(&out, &shell_terminal, PTY_SESSION_NUMBER);
  shell = child(be_shell);
  must(close(shell_terminal));
  await(*interrupts == 1);
}

/*
 * Control-C goes to the group in the foreground. The kernel makes the signal of it a moment after it was typed: if a
 * dump has read the pending signals of the shell by then, the image misses it. So it is typed again, as anybody would.
 */
static void interrupt_the_shell(void) {
  int before = *interrupts;
  for (int left = 5000; *interrupts == before; rest()) {
    if (left % 500 == 0) expect(write(out, "\003", 1) == 1);
    if (left-- == 0) bad("control-C does not interrupt the shell");
  }
  pid_t leader = 0;
  must(ioctl(out, TIOCGSID, &leader));
  expect(leader == shell);
}

static void drain_echo(void) {
  char echoed[256];
  int waiting = 0;
  must(ioctl(out, FIONREAD, &waiting));
  if (waiting > 0) expect(read(out, echoed, sizeof echoed) > 0);
}

static void use_session_terminal(void) {
  interrupt_the_shell();
  drain_echo();
}

const struct specimen pipe_specimens[] = {
    {"pipe", "", 0, open_pipe, pass_through_pipe, empty},
    {"fifo", "", 0, open_fifo, pass_numbers, empty},
    {"pipes-to-child", "", 0, open_echo, pass_numbers, NULL},
    {"pty", "", 0, open_terminal, use_terminal, NULL},
    {"pty-session", "", 0, open_session_terminal, use_session_terminal, NULL},
    {0},
};
