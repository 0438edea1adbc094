/*
 * Processes that each hold one resource of the kernel and prove, over and over, that they still have it: subjects for
 * dump and restore. zoo.main.c has the list and the requests.
 */
#ifndef ZOO_H
#define ZOO_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>

struct specimen {
  const char *name;
  /* What a dump and a restore need: tcp, locks, links, root, with commas; "" for nothing. */
  const char *needs;
  /* CLONE_NEW* flags to start it with; its first process is then the first of the namespace. */
  int namespaces;
  void (*set_up)(void);
  /* Called every few milliseconds. May be stopped at any point of it, and must find nothing changed. */
  void (*check)(void);
  /* Called once, after a restore: what check must not do, because it uses up the resource or takes a peer. NULL: nothing. */
  void (*verify)(void);
};

extern const struct specimen thread_specimens[], pipe_specimens[], timer_specimens[], event_specimens[],
    memory_specimens[], socket_specimens[], file_specimens[], signal_specimens[], process_specimens[],
    namespace_specimens[];

/* The resource has changed: reports this and ends the process. */
_Noreturn void bad(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* This kernel does not have the resource at all. Says so and ends the process. */
_Noreturn void impossible(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A system call that may not fail. Its value is that of the call. */
#define must(call) must_not_fail((long)(call), #call)
long must_not_fail(long result, const char *call);

/* A system call that this kernel may not have. */
#define may(call) may_fail((long)(call), #call)
long may_fail(long result, const char *call);

#define expect(condition) \
  do { \
    if (!(condition)) bad("not so any more: %s", #condition); \
  } while (0)

/* A name for a file beside the status file, and unlike any other. The caller keeps it. */
char *own_path(const char *suffix);

/* Starts a child that runs body without end. The child dies with its parent only if the parent is killed. */
pid_t child(void (*body)(void));

/* Zeroed memory that children share. */
void *shared_memory(size_t bytes);

/* Whether the descriptor is readable by then. CRIU ends a waiting poll with EINTR; the poll is then repeated. */
bool is_readable(int descriptor, int milliseconds);

/* Lets a little time pass. */
void rest(void);

/* Waits until condition holds, or says that it does not come true. */
#define await(condition) \
  do { \
    for (int left = 5000; !(condition); rest()) \
      if (left-- == 0) bad("waited in vain for: %s", #condition); \
  } while (0)

#endif
