#include "trace.h"

#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

enum { CALLS = 60000, INFO_ENTRY = 1 };

static const uint64_t large = 64 << 20;

struct call {
  double at, took, before; /* seconds; `before`: since the last call ended */
  long number, result;
  uint64_t arguments[6];
  int file; /* index of the name of the descriptor of an ioctl, else 0 */
};

struct trace {
  int pid, tid;
  void (*found)(void *, uint64_t, uint64_t, long, int);
  void *argument;
  pthread_t thread;
  _Atomic int over, ready;
  double begin, ended;
  struct call *calls;
  int count, inside;
  char files[16][40];
  int file_count;
};

static int registers(int request, int tid, struct user_regs_struct *r) {
  struct iovec io = {r, sizeof *r};
  return ptrace(request, tid, NT_PRSTATUS, &io) == 0;
}

/* 1 for a stop, 0 when it is time to end, -1 when the thread is gone. */
static int wait_for(struct trace *t, int *status) {
  for (;;) {
    int found = waitpid(t->tid, status, __WALL | WNOHANG);
    if (found == t->tid) return WIFSTOPPED(*status) ? 1 : -1;
    if (found < 0) return -1;
    if (atomic_load(&t->over)) return 0;
    sched_yield();
  }
}

static int name_of_file(struct trace *t, uint64_t fd) {
  char link[64], name[40] = "";
  snprintf(link, sizeof link, "/proc/%d/fd/%d", t->pid, (int)fd);
  if (readlink(link, name, sizeof name - 1) < 0) strcpy(name, "?");
  for (int i = 0; i < t->file_count; i++)
    if (strcmp(t->files[i], name) == 0) return i;
  if (t->file_count == 16) return 15;
  strcpy(t->files[t->file_count], name);
  return t->file_count++;
}

static void enter(struct trace *t, const struct user_regs_struct *r) {
  if (t->count == CALLS) return;
  struct call *c = &t->calls[t->count];
  c->at = seconds() - t->begin;
  c->before = c->at - t->ended;
  c->number = (long)r->orig_rax;
  const uint64_t arguments[6] = {r->rdi, r->rsi, r->rdx, r->r10, r->r8, r->r9};
  memcpy(c->arguments, arguments, sizeof arguments);
  c->file = c->number == SYS_ioctl ? name_of_file(t, r->rdi) : 0;
  t->inside = 1;
}

static void leave(struct trace *t, const struct user_regs_struct *r) {
  if (!t->inside || t->count == CALLS) return;
  struct call *c = &t->calls[t->count++];
  t->ended = seconds() - t->begin;
  c->took = t->ended - c->at;
  c->result = (long)r->rax;
  t->inside = 0;
}

static int is_save_area(const struct user_regs_struct *r) {
  return r->orig_rax == SYS_mmap && r->rsi >= large && (r->rdx & PROT_WRITE) != 0 && (r->r10 & MAP_PRIVATE) != 0 &&
         (r->r10 & MAP_ANONYMOUS) != 0;
}

/* At the stop after mmap: the same instruction again, as madvise. */
static long make_huge(struct trace *t, struct user_regs_struct after, uint64_t start, uint64_t length) {
  struct user_regs_struct r = after;
  int status;
  r.rip -= 2;
  r.rax = SYS_madvise;
  r.orig_rax = (unsigned long)-1;
  r.rdi = start;
  r.rsi = length;
  r.rdx = MADV_HUGEPAGE;
  if (!registers(PTRACE_SETREGSET, t->tid, &r)) return -ESRCH;
  for (int i = 0; i < 2; i++)
    if (ptrace(PTRACE_SYSCALL, t->tid, 0, 0) != 0 || wait_for(t, &status) != 1) return -ESRCH;
  registers(PTRACE_GETREGSET, t->tid, &r);
  registers(PTRACE_SETREGSET, t->tid, &after);
  return (long)r.rax;
}

/* True when the trap has done its work. */
static int trap(struct trace *t, struct user_regs_struct *r, int entry, int *waiting, int *flags) {
  if (entry && is_save_area(r)) {
    *flags = (int)r->r10;
    r->r10 &= ~(unsigned long)MAP_POPULATE;
    *waiting = registers(PTRACE_SETREGSET, t->tid, r);
  } else if (!entry && *waiting) {
    uint64_t start = r->rax, length = r->rsi;
    if ((long)start < 0) return 0;
    long result = make_huge(t, *r, start, length);
    t->found(t->argument, start, start + length, result, *flags);
    return 1;
  }
  return 0;
}

static void *follow(void *argument) {
  struct trace *t = argument;
  struct user_regs_struct r;
  int status, waiting = 0, flags = 0, done = 0;
  if (ptrace(PTRACE_SEIZE, t->tid, 0, PTRACE_O_TRACESYSGOOD) != 0 || ptrace(PTRACE_INTERRUPT, t->tid, 0, 0) != 0 ||
      waitpid(t->tid, &status, __WALL) != t->tid) {
    printf("  seizing %d: %s\n", t->tid, strerror(errno));
    atomic_store(&t->ready, -1);
    return NULL;
  }
  t->begin = seconds();
  ptrace(PTRACE_SYSCALL, t->tid, 0, 0);
  atomic_store(&t->ready, 1);
  while (!done) {
    int stopped = wait_for(t, &status);
    if (stopped < 0) return NULL;
    if (stopped == 0) break;
    int signal = 0;
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
      struct __ptrace_syscall_info info;
      ptrace(PTRACE_GET_SYSCALL_INFO, t->tid, sizeof info, &info);
      int entry = info.op == INFO_ENTRY;
      if (!registers(PTRACE_GETREGSET, t->tid, &r)) return NULL;
      if (t->found != NULL) done = trap(t, &r, entry, &waiting, &flags);
      else if (entry) enter(t, &r);
      else leave(t, &r);
    } else if (status >> 16 == 0) {
      signal = WSTOPSIG(status);
    }
    if (!done) ptrace(PTRACE_SYSCALL, t->tid, 0, signal);
  }
  if (!done) {
    ptrace(PTRACE_INTERRUPT, t->tid, 0, 0);
    waitpid(t->tid, &status, __WALL);
  }
  ptrace(PTRACE_DETACH, t->tid, 0, 0);
  return NULL;
}

static struct trace *begin(int pid, int tid, void (*found)(void *, uint64_t, uint64_t, long, int), void *argument) {
  struct trace *t = calloc(1, sizeof *t);
  t->pid = pid;
  t->tid = tid;
  t->found = found;
  t->argument = argument;
  t->file_count = 1;
  t->calls = malloc(CALLS * sizeof *t->calls);
  pthread_create(&t->thread, NULL, follow, t);
  while (atomic_load(&t->ready) == 0) sleep_for(0.0001);
  return t;
}

struct trace *trace_start(int pid, int tid) { return begin(pid, tid, NULL, NULL); }

struct trace *trap_start(int pid, int tid, void (*found)(void *, uint64_t, uint64_t, long, int), void *argument) {
  return begin(pid, tid, found, argument);
}

void trap_stop(struct trace *t) {
  atomic_store(&t->over, 1);
  pthread_join(t->thread, NULL);
  free(t->calls);
  free(t);
}

static const char *name_of_call(long number) {
  static char text[32];
  switch (number) {
    case SYS_mmap: return "mmap";
    case SYS_munmap: return "munmap";
    case SYS_mprotect: return "mprotect";
    case SYS_madvise: return "madvise";
    case SYS_mremap: return "mremap";
    case SYS_mlock: return "mlock";
    case SYS_mlock2: return "mlock2";
    case SYS_munlock: return "munlock";
    case SYS_brk: return "brk";
    case SYS_ioctl: return "ioctl";
    case SYS_poll: return "poll";
    case SYS_read: return "read";
    case SYS_write: return "write";
    case SYS_openat: return "openat";
    case SYS_close: return "close";
    case SYS_futex: return "futex";
    case SYS_fcntl: return "fcntl";
    case SYS_newfstatat: return "newfstatat";
    case SYS_fstat: return "fstat";
    case SYS_restart_syscall: return "restart_syscall";
    case SYS_sched_yield: return "sched_yield";
    case SYS_clock_nanosleep: return "clock_nanosleep";
    default: snprintf(text, sizeof text, "call %ld", number); return text;
  }
}

static int is_memory(long n) {
  return n == SYS_mmap || n == SYS_munmap || n == SYS_mprotect || n == SYS_madvise || n == SYS_mremap ||
         n == SYS_mlock || n == SYS_mlock2 || n == SYS_munlock;
}

static void print_call(const struct trace *t, const struct call *c) {
  printf("    %8.3f s  %s", c->at, name_of_call(c->number));
  if (c->number == SYS_ioctl) printf(" %s 0x%lx", t->files[c->file], c->arguments[1]);
  else if (is_memory(c->number))
    printf(" %lx, %.3f MiB, 0x%lx, 0x%lx, fd %d", c->arguments[0], (double)c->arguments[1] / 1048576, c->arguments[2],
           c->arguments[3], (int)c->arguments[4]);
  printf(" = %lx, took %.3f s", c->result, c->took);
  if (c->before > 0.02) printf(", after %.3f s outside the kernel", c->before);
  printf("\n");
}

/* By number, and for ioctl by file and request. */
static int same(const struct call *a, const struct call *b) {
  return a->number == b->number &&
         (a->number != SYS_ioctl || (a->file == b->file && a->arguments[1] == b->arguments[1]));
}

static void print_sums(const struct trace *t) {
  char *counted = calloc((size_t)t->count + 1, 1);
  printf("    %d system calls by the thread:\n", t->count);
  for (int i = 0; i < t->count; i++) {
    if (counted[i]) continue;
    int times = 0;
    double took = 0, most = 0;
    for (int j = i; j < t->count; j++) {
      if (counted[j] || !same(&t->calls[i], &t->calls[j])) continue;
      counted[j] = 1;
      times++;
      took += t->calls[j].took;
      if (t->calls[j].took > most) most = t->calls[j].took;
    }
    if (times < 3 && took < 0.002) continue;
    printf("    %6d x %s", times, name_of_call(t->calls[i].number));
    if (t->calls[i].number == SYS_ioctl) printf(" %s 0x%lx", t->files[t->calls[i].file], t->calls[i].arguments[1]);
    printf(", %.3f s together, %.3f at most\n", took, most);
  }
  free(counted);
}

void trace_stop(struct trace *t) {
  atomic_store(&t->over, 1);
  pthread_join(t->thread, NULL);
  print_sums(t);
  double outside = 0;
  int shown = 0;
  for (int i = 0; i < t->count; i++) {
    const struct call *c = &t->calls[i];
    if (i > 0) outside += c->before;
    int waits = c->number == SYS_poll || c->number == SYS_restart_syscall;
    int telling = (is_memory(c->number) && c->arguments[1] >= 8 << 20) || c->before > 0.02 || c->took > 0.02;
    if (telling && !waits && shown++ < 60) print_call(t, c);
  }
  printf("    outside of system calls %.3f s\n", outside);
  free(t->calls);
  free(t);
}
