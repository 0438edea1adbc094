/*
 * Processes that are made from attributes (a terminal, a namespace, a limit, a socket option) and report from inside what
 * each attribute is now: subjects for dump and restore. attributes.main.c has the calls.
 */
#ifndef ATTRIBUTES_H
#define ATTRIBUTES_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

/* The moment at which an attribute is set. */
enum stage {
  OUTSIDE,     /* by the keeper, the process outside the tree that starts the root and reaps it */
  TERMINAL,    /* between keeper and root: the root's session and standard files; one of a process at most */
  BEFORE_EXEC, /* by the root before it executes this program again, so that nothing older is open or mapped */
  EARLY,       /* by the root before it uses the GPU, so that children have nothing of the GPU */
  LATE,        /* by the root at last: what forbids the rest */
};

struct attribute {
  const char *name;
  enum stage stage;
  void (*set_up)(void);
  /* Appends its current values to the report; NULL if the common part of the report has them. */
  void (*tell)(void);
};

extern const struct attribute terminal_attributes[], namespace_attributes[], program_attributes[], control_attributes[],
    credential_attributes[], confinement_attributes[], memory_attributes[], file_attributes[], event_attributes[],
    socket_attributes[], connection_attributes[], signal_attributes[], tree_attributes[];

/* Reports that this machine does not have the attribute, or does not permit it, and ends the process. */
_Noreturn void impossible(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A system call that has to succeed; otherwise the attribute is impossible here. */
#define may(call) may_fail((long)(call), #call)
long may_fail(long result, const char *call);

/* Appends "ATTRIBUTE " and a line to the report. */
void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The error of a call as a word for the report: "ok" or the name of the error. */
const char *outcome(long result);

/* A path in the directory of this process. The caller keeps it. */
char *own_path(const char *name);

/* Creates an empty file there, or with text, and returns its descriptor. */
int own_file(const char *name, const char *text);

/* The first line of a file, or the error. Valid until the next call. */
const char *first_line(const char *path);

/* Starts a child that runs set_up and then reports by its own tell, which `ask_child` appends to the report. */
struct child;
struct child *start_child(void (*set_up)(void), void (*tell)(void));

/* The same in two steps, for a child that another process starts. */
struct child *new_child(void);
void start_child_in(struct child *child, void (*set_up)(void), void (*tell)(void));
bool has_answered(const struct child *child);

void ask_child(struct child *child);

/* Zeroed memory that children share. */
void *shared_memory(size_t bytes);

/* What every report has: common.c. */
void tell_common(void);

/* Whether the process was made with this attribute. */
bool has(const char *attribute);

/* Sets up all chosen attributes of a stage. */
void set_up_stage(enum stage stage);

/* keeper.c: starts the root and stays until SIGTERM. */
int keep(char **argv);

/* The same for a command in a terminal. */
int keep_command(char **argv);

void pause_shortly(void);

#endif
