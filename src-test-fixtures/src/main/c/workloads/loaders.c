#include "loaders.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "nvml.h"
#include "udp.h"

#define MOST_LOADERS 16
#define OTHER_USER 54321

static struct {
  int to, from;
  uint64_t count;
} loaders[MOST_LOADERS];
static int loader_count;
static atomic_ulong answered, wrong;

/* The kernel reports start times in hundredths of a second: that a child was forked after cuInit shows only some time after. */
static void let_time_pass(void) {
  const struct timespec two = {.tv_nsec = 20000000};
  nanosleep(&two, NULL);
}

static void die_with_parent(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); }

_Noreturn static void wait_for_ever(void) {
  for (;;) pause();
}

static void *idle(void *unused) {
  (void)unused;
  wait_for_ever();
}

/* Ends with its parent's end of the pipe. */
_Noreturn static void load(int in, int out) {
  pthread_t second;
  uint64_t message, count = 0;
  die_with_parent();
  if (pthread_create(&second, NULL, idle, NULL) != 0) _exit(3);
  while (read(in, &message, sizeof message) == sizeof message) {
    count++;
    if (write(out, &count, sizeof count) != sizeof count) break;
  }
  _exit(0);
}

static bool exchange(int which) {
  uint64_t number = ++loaders[which].count, reply = 0;
  return write(loaders[which].to, &number, sizeof number) == sizeof number
      && read(loaders[which].from, &reply, sizeof reply) == sizeof reply && reply == number;
}

/* Returns when it answers: before that its fork may not be over, and it has what it does not keep. */
static pid_t begin_loader(void) {
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) return -1;
  pid_t pid = fork();
  if (pid == 0) {
    for (int i = 0; i < loader_count; i++) close(loaders[i].to), close(loaders[i].from);
    close(to[1]);
    close(from[0]);
    load(to[0], from[1]);
  }
  close(to[0]);
  close(from[1]);
  loaders[loader_count].to = to[1];
  loaders[loader_count].from = from[0];
  return exchange(loader_count++) ? pid : -1;
}

static void *send_messages(void *unused) {
  (void)unused;
  for (;;) {
    for (int i = 0; i < loader_count; i++) {
      if (!exchange(i)) atomic_fetch_add(&wrong, 1);
      atomic_fetch_add(&answered, 1);
    }
    usleep(200);
  }
  return NULL;
}

static void begin_loaders(int wanted, char *reply) {
  pthread_t sender;
  if (loader_count > 0 || wanted < 1 || wanted > MOST_LOADERS) {
    strcpy(reply, "error 1 to 16, once");
    return;
  }
  let_time_pass();
  for (int i = 0; i < wanted; i++) {
    size_t length = strlen(reply);
    snprintf(reply + length, ANSWER_SIZE - length, i == 0 ? "%d" : " %d", (int)begin_loader());
  }
  if (pthread_create(&sender, NULL, send_messages, NULL) != 0) strcpy(reply, "error no thread");
}

/* Forks a child that prepares itself and then waits; -1 if that did not succeed. */
static pid_t begin_prepared(bool (*prepare)(void)) {
  int ready[2];
  char byte = 0;
  if (pipe2(ready, O_CLOEXEC) != 0) return -1;
  pid_t pid = fork();
  if (pid == 0) {
    if (!prepare()) _exit(3);
    die_with_parent(); /* a change of user would take it back */
    close(ready[0]);
    if (write(ready[1], &byte, 1) != 1) _exit(3);
    close(ready[1]);
    wait_for_ever();
  }
  close(ready[1]);
  /* The end of the pipe says that the child has closed it, so that its descriptors stay as they are from here on. */
  bool begun = read(ready[0], &byte, 1) == 1 && read(ready[0], &byte, 1) == 0;
  close(ready[0]);
  return begun ? pid : -1;
}

static bool nothing_more(void) { return true; }

pid_t fork_waiting(void) { return begin_prepared(nothing_more); }

static bool use_nvml(void) {
  char said[ANSWER_SIZE] = "";
  nvml_answer("nvml", said);
  return strcmp(said, "ok") == 0;
}

static pid_t with_nvml(void) { return begin_prepared(use_nvml); }

static bool forbid_dup3(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_dup3, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static pid_t with_seccomp(void) { return begin_prepared(forbid_dup3); }

static bool be_other_user(void) {
  return setresgid(OTHER_USER, OTHER_USER, OTHER_USER) == 0 && setresuid(OTHER_USER, OTHER_USER, OTHER_USER) == 0;
}

static pid_t as_other_user(void) { return begin_prepared(be_other_user); }

static atomic_int vforked;

/* This thread waits as long as the child does not execute a program. */
static void *share_memory(void *unused) {
  (void)unused;
  if (vfork() == 0) {
    die_with_parent();
    atomic_store(&vforked, (int)getpid());
    wait_for_ever();
  }
  return NULL;
}

static pid_t with_memory(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, share_memory, NULL) != 0) return -1;
  while (atomic_load(&vforked) == 0) sched_yield();
  return atomic_load(&vforked);
}

static pid_t with_files(void) {
  pid_t pid = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, 0);
  if (pid != 0) return pid;
  die_with_parent();
  wait_for_ever();
}

static const struct {
  const char *name;
  pid_t (*begin)(void);
} KINDS[] = {
    {"plain", fork_waiting}, {"nvml", with_nvml},       {"vfork", with_memory},
    {"files", with_files}, {"seccomp", with_seccomp}, {"user", as_other_user},
};

static bool begin_child(const char *kind, char *reply) {
  for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
    if (strcmp(kind, KINDS[i].name) != 0) continue;
    let_time_pass();
    pid_t pid = KINDS[i].begin();
    if (pid < 0) strcpy(reply, "error it did not begin");
    else snprintf(reply, ANSWER_SIZE, "%d", (int)pid);
    return true;
  }
  return false;
}

bool loaders_answer(const char *request, char *reply) {
  if (strncmp(request, "loaders ", 8) == 0) {
    begin_loaders(atoi(request + 8), reply);
  } else if (strcmp(request, "traffic") == 0) {
    snprintf(reply, ANSWER_SIZE, "%lu %lu", atomic_load(&answered), atomic_load(&wrong));
  } else {
    return strncmp(request, "child ", 6) == 0 && begin_child(request + 6, reply);
  }
  return true;
}
