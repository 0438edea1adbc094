#include "inject.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

static int registers(int request, int tid, struct user_regs_struct *r) {
  struct iovec io = {r, sizeof *r};
  return ptrace(request, tid, NT_PRSTATUS, &io) == 0;
}

/* Waits for the next stop of that kind; a signal that comes earlier is passed on. */
static int wait_stop(int tid, int wanted, int how) {
  int status;
  for (;;) {
    if (waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status)) return 0;
    if (status >> 8 == wanted) return 1;
    int event = status >> 16, signal = event == 0 && WSTOPSIG(status) != (SIGTRAP | 0x80) ? WSTOPSIG(status) : 0;
    if (ptrace(how, tid, 0, signal) != 0) return 0;
  }
}

/* The kernel's codes for a call that was interrupted and would be begun again; none is seen by programs. */
enum { RESTARTSYS = -512, RESTARTNOINTR = -513, RESTARTNOHAND = -514, RESTART_RESTARTBLOCK = -516 };

int captive_take(struct captive *captive, int tid) {
  static const unsigned char syscall_instruction[] = {0x0f, 0x05};
  unsigned char code[2] = {0};
  struct user_regs_struct *r = &captive->registers;
  captive->tid = tid;
  if (ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD) != 0) {
    printf("  seizing %d: %s\n", tid, strerror(errno));
    return 0;
  }
  if (ptrace(PTRACE_INTERRUPT, tid, 0, 0) != 0 || !wait_stop(tid, SIGTRAP | PTRACE_EVENT_STOP << 8, PTRACE_CONT) ||
      !registers(PTRACE_GETREGSET, tid, r))
    return 0;
  struct iovec here = {code, 2}, there = {(void *)(r->rip - 2), 2};
  if (process_vm_readv(tid, &here, 1, &there, 1, 0) != 2 || memcmp(code, syscall_instruction, 2) != 0 ||
      (long)r->orig_rax < 0) {
    printf("  thread %d is in no system call\n", tid);
    ptrace(PTRACE_DETACH, tid, 0, 0);
    return 0;
  }
  return 1;
}

long captive_call(struct captive *captive, long number, const long arguments[6]) {
  struct user_regs_struct r = captive->registers;
  r.rip -= 2;
  r.rax = (unsigned long)number;
  r.orig_rax = (unsigned long)-1;
  r.rdi = (unsigned long)arguments[0];
  r.rsi = (unsigned long)arguments[1];
  r.rdx = (unsigned long)arguments[2];
  r.r10 = (unsigned long)arguments[3];
  r.r8 = (unsigned long)arguments[4];
  r.r9 = (unsigned long)arguments[5];
  if (!registers(PTRACE_SETREGSET, captive->tid, &r)) return -ESRCH;
  for (int i = 0; i < 2; i++) /* into the call, and out of it */
    if (ptrace(PTRACE_SYSCALL, captive->tid, 0, 0) != 0 || !wait_stop(captive->tid, SIGTRAP | 0x80, PTRACE_SYSCALL))
      return -ESRCH;
  return registers(PTRACE_GETREGSET, captive->tid, &r) ? (long)r.rax : -ESRCH;
}

void captive_release(struct captive *captive) {
  struct user_regs_struct r = captive->registers;
  long result = (long)r.rax;
  if (result == RESTARTSYS || result == RESTARTNOINTR || result == RESTARTNOHAND) {
    r.rax = r.orig_rax;
    r.rip -= 2;
  } else if (result == RESTART_RESTARTBLOCK) {
    r.rax = (unsigned long)-EINTR;
  }
  r.orig_rax = (unsigned long)-1;
  registers(PTRACE_SETREGSET, captive->tid, &r);
  ptrace(PTRACE_DETACH, captive->tid, 0, 0);
}
