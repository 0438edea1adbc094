/* What all workloads share: their options, and a UDP port at which they answer questions. */
#ifndef WORKLOAD_UDP_H
#define WORKLOAD_UDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ANSWER_SIZE 512

struct options {
  uint32_t address;   /* --address A: where it listens; 127.0.0.1 if not said */
  int port;           /* --port N: 0 lets the kernel choose */
  const char *ready;  /* --ready FILE: appears, holding the port, when stderr is closed, the directory is left and the
                         workload answers: an absolute path. Without it the port is printed and both stay as they are. */
  bool kept;          /* --keeper: it is the child of a process that does nothing but wait for its end */
  bool own_session;   /* --setsid: as CRIU wants it */
  bool leaves;        /* --first-thread-ends: main ends its thread, as pthread_exit does, and another one goes on */
  int gpu;            /* --gpu N: ordinal */
  long mebibytes;     /* --mib N: GPU memory to fill with a pattern; negative if not said */
  unsigned long long seed; /* --seed N: what it is filled with */
  int pollers;        /* --pollers N: threads that ask the driver whether work is done, see polls.h */
  bool prints;        /* --print: prints each number, see counter.main.c */
  const char *subject; /* --subject NAME: what it does, see insiders.main.c */
  int members, gpus, loaders; /* --members N, --gpus N, --loaders N: of a tree, see job.main.c */
};

/* Reads the options and begins the session; ends the program with status 2 if it does not understand them. */
struct options parse_options(int argc, char **argv);

/* Does all the work of the program: in the first thread, or in another one while the first ends. */
int run(const struct options *options, int (*body)(const struct options *options));

/* Answers datagrams without end. `answer` writes ANSWER_SIZE bytes of text at most. */
int serve(const struct options *options, void (*answer)(const char *request, char *reply));

#endif
