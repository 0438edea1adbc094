/* start [OPTION VALUE]... -- COMMAND [ARGUMENT]...
 * The JVM starts this program as the leader of a session. It prepares the job and executes the command.
 *   isolate yes      a pid namespace and a mount namespace of its own, as the first process there
 *   directory PATH   working directory
 *   in PATH          standard input
 *   out PATH, err PATH        standard output and error: a file that is truncated
 *   out+ PATH, err+ PATH      standard output and error: a file that is appended to
 *   join yes         standard error is standard output
 *   unset NAME, set NAME=VALUE
 *   job-file PATH    an empty file that is created, and named by CUDA_CHECKPOINT_JOB_FILE
 *   preload PATH     is appended to LD_PRELOAD
 *   socket PATH, requests PATH       accepts snapshot requests, see requests.c
 * Descriptors 0 to 2 and the environment are inherited otherwise. The files are opened here, since CRIU requires those of an
 * isolated job to be opened in its mount namespace.
 * Descriptor 3 is a SEQPACKET socket to the JVM, with messages of struct message. Sent: PID (of an isolated job; this
 * process exits), READY, and FAILED. Received: GO. The command is executed only then, so that a JVM that is killed before
 * leaves no job. The exec closes the socket, which shows the JVM that it succeeded. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "job.h"

enum { SOCKET = 3 };
enum kind { PID = 1, READY = 2, FAILED = 3, GO = 4 };
/* LaunchFailures.java has a message for each of them. */
enum step { NAMESPACES = 1, MOUNTS = 2, DIRECTORY = 3, FILE_IN = 4, FILE_OUT = 5, FILE_ERR = 6, EXEC = 7, FILE_KIND = 8, REQUESTS = 9, JOB_FILE = 10 };

struct message {
  int32_t kind, step, value;
};

static void send_message(enum kind kind, enum step step, int value) {
  struct message message = {kind, step, value};
  if (send(SOCKET, &message, sizeof message, MSG_NOSIGNAL) != sizeof message) _exit(125);
}

static void fail(enum step step, int error) {
  send_message(FAILED, step, error);
  _exit(126);
}

static void must(int answer, enum step step) {
  if (answer < 0) fail(step, errno);
}

/* Replaces the mounts at a place. CRIU would dump a mount below the new one too. */
static void mount_own(const char *point, const char *type, unsigned long flags, const char *data) {
  while (umount2(point, MNT_DETACH | UMOUNT_NOFOLLOW) == 0) {
  }
  must(mount(type, point, type, flags, data), MOUNTS);
}

/* READY must come after PID, since the JVM takes the sender of READY for that process. */
static void wait_for_pid_message(const int sent[2]) {
  char byte;
  ssize_t got;
  close(sent[1]);
  do got = read(sent[0], &byte, 1);
  while (got < 0 && errno == EINTR);
  if (got != 1) _exit(125); /* the other process was killed */
  close(sent[0]);
}

/* Continues in a child of the JVM, not of this process (CLONE_PARENT), with a copy of the memory, as by fork. Then executes
 * the program again, so that its file is in the new mount namespace: CRIU would not find it otherwise. */
static void isolate(char **argv) {
  char program[4096];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  must(length < 0 ? -1 : 0, NAMESPACES);
  program[length] = 0;
  int sent[2];
  must(pipe2(sent, O_CLOEXEC), NAMESPACES);
  long pid = syscall(SYS_clone, CLONE_PARENT | CLONE_NEWPID | CLONE_NEWNS | SIGCHLD, NULL, NULL, NULL, NULL);
  must(pid < 0 ? -1 : 0, NAMESPACES);
  if (pid > 0) {
    send_message(PID, 0, (int)pid);
    _exit(write(sent[1], "", 1) == 1 ? 0 : 125);
  }
  wait_for_pid_message(sent);
  must(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), MOUNTS);
  /* The library's host memory is not part of the job: an image with this mount could not be restored without it. */
  while (umount2("/run/gpuprocess/memory", MNT_DETACH) == 0) continue; /* it may be mounted several times */
  mount_own("/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
  /* A mount of its own, so that copies of the job do not share files there, and the image has no files of others. */
  if (access("/dev/shm", F_OK) == 0) mount_own("/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
  must(fcntl(SOCKET, F_SETFD, 0), EXEC);
  argv[0] = "gpuprocess-start";
  argv[1] = "start";
  execv(program, argv);
  fail(NAMESPACES, errno);
}

/* Opens a file, without waiting for the other end of a named pipe. */
static void open_as(int number, const char *path, int flags, enum step step) {
  struct stat found;
  int file = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
  must(file, step);
  must(fstat(file, &found), step);
  if (!S_ISREG(found.st_mode) && !S_ISCHR(found.st_mode)) fail(FILE_KIND, step);
  must(fcntl(file, F_SETFL, flags & O_APPEND), step);
  if (file == number) {
    must(fcntl(file, F_SETFD, 0), step); /* a dup2 onto itself would leave it closed by the exec */
  } else {
    must(dup2(file, number), step);
    close(file);
  }
}

static void preload(const char *library) {
  const char *before = getenv("LD_PRELOAD");
  char *all;
  if (before == NULL || *before == 0) {
    must(setenv("LD_PRELOAD", library, 1), EXEC);
  } else {
    must(asprintf(&all, "%s:%s", before, library), EXEC);
    must(setenv("LD_PRELOAD", all, 1), EXEC);
    free(all);
  }
}

/* Only this process can create a file in the /dev/shm of an isolated job. */
static void make_job_file(const char *path) {
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  must(file, JOB_FILE);
  must(fchmod(file, 0600), JOB_FILE);
  close(file);
  must(setenv("CUDA_CHECKPOINT_JOB_FILE", path, 1), EXEC);
}

static void apply(const char *name, char *value) {
  static const char *socket_path = "";
  const int output = O_WRONLY | O_CREAT;
  if (strcmp(name, "directory") == 0) must(chdir(value), DIRECTORY);
  if (strcmp(name, "in") == 0) open_as(0, value, O_RDONLY, FILE_IN);
  if (strcmp(name, "out") == 0) open_as(1, value, output | O_TRUNC, FILE_OUT);
  if (strcmp(name, "out+") == 0) open_as(1, value, output | O_APPEND, FILE_OUT);
  if (strcmp(name, "err") == 0) open_as(2, value, output | O_TRUNC, FILE_ERR);
  if (strcmp(name, "err+") == 0) open_as(2, value, output | O_APPEND, FILE_ERR);
  if (strcmp(name, "join") == 0) must(dup2(1, 2), FILE_ERR);
  if (strcmp(name, "unset") == 0) must(unsetenv(value), EXEC);
  if (strcmp(name, "set") == 0) must(putenv(value), EXEC);
  if (strcmp(name, "job-file") == 0) make_job_file(value);
  if (strcmp(name, "preload") == 0) preload(value);
  if (strcmp(name, "socket") == 0) socket_path = value;
  if (strcmp(name, "requests") == 0) must(listen_for_requests(socket_path, value), REQUESTS);
}

/* glibc's posix_spawn leaves its own two signals ignored, and hides them from sigaction. */
static void reset_signals(void) {
  const struct {
    void *handler;
    unsigned long flags;
    void *restorer;
    unsigned long mask;
  } ordinary = {0};
  for (int number = 32; number <= 33; number++) must(syscall(SYS_rt_sigaction, number, &ordinary, NULL, 8) < 0 ? -1 : 0, EXEC);
}

int start_job(int argc, char **argv) {
  struct message answer;
  must(fcntl(SOCKET, F_SETFD, FD_CLOEXEC), EXEC);
  reset_signals();
  if (argc > 1 && strcmp(argv[0], "isolate") == 0) isolate(argv);
  int each = 0;
  for (; each + 1 < argc && strcmp(argv[each], "--") != 0; each += 2) apply(argv[each], argv[each + 1]);
  if (each + 1 >= argc) return 2;
  send_message(READY, 0, 0);
  ssize_t got;
  do got = recv(SOCKET, &answer, sizeof answer, 0);
  while (got < 0 && errno == EINTR);
  if (got != sizeof answer || answer.kind != GO) _exit(124); /* the JVM has exited, or cancels the job */
  if (getsid(0) != getpid()) must(setsid() < 0 ? -1 : 0, EXEC);
  must(begin_to_serve(SOCKET, argv - 2, argv + each + 1), REQUESTS);
  execvp(argv[each + 1], argv + each + 1);
  fail(EXEC, errno);
  return 126;
}
