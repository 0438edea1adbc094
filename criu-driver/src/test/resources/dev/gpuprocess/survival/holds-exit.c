/*
 * holds-exit PID : holds a process at its exit, by whatever cause, until this program's input ends. Says when it is ready.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <unistd.h>

int main(int count, char **words) {
  char byte;
  if (count != 2 || ptrace(PTRACE_SEIZE, atoi(words[1]), 0L, (long)PTRACE_O_TRACEEXIT)) {
    perror("PTRACE_SEIZE");
    return 1;
  }
  if (write(1, "ready\n", 6) != 6) return 1;
  while (read(0, &byte, 1) > 0) {
  }
  return 0; /* and with its tracer gone it goes on to its end */
}
