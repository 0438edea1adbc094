/* The target's side of the control path: a thread that waits for a signal.
 *
 * At rest it holds no descriptor and no mapping, so it does not stand in CRIU's way, and a thread in sigwaitinfo is
 * easily dumped and restored. Its name, which CRIU restores too, identifies it and its
 * machine. All signals are blocked in it, so that the workload's handlers never run there and the signal, which
 * is sent to this thread alone, disturbs no other thread. Being a thread of the target it does nothing while the target is
 * stopped, and it serves one call after the other: both as the driver does. */
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control.h"

static sem_t ready;

/* Opens a call's file. The caller holds a lock on it for as long as it waits: one without a lock was left by a caller
 * that died, and nothing is done for it. */
static int open_call(unsigned id) {
  char path[PATH_MAX];
  machine_path(path, "state/calls/%08x", id);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0) return fd;
  unlink(path);
  close(fd);
  return -1;
}

/* Answers only the call that was made: after a restore, the caller of a call in the image is gone. */
static void answer(unsigned id, const struct control_call *served) {
  int fd = open_call(id);
  if (fd < 0) return;
  struct control_call *call = mmap(NULL, sizeof *call, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (call == MAP_FAILED) return;
  if (call->serial == served->serial) {
    call->result = served->result;
    call->value = served->value;
    __atomic_store_n(&call->done, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &call->done, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
  }
  munmap(call, sizeof *call);
}

/* Holds neither a descriptor nor a mapping while it serves: a call that hangs does not stand in CRIU's way either. */
static void serve(unsigned id) {
  struct control_call call;
  int fd = open_call(id);
  if (fd < 0) return;
  bool whole = pread(fd, &call, sizeof call, 0) == sizeof call;
  close(fd);
  if (!whole) return;
  checkpoint_serve(&call);
  answer(id, &call);
}

static void *run(void *unused) {
  (void)unused;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, CONTROL_SIGNAL);
  prctl(PR_SET_NAME, machine()->control_name);
  sem_post(&ready);
  for (;;) {
    siginfo_t info;
    if (sigwaitinfo(&signals, &info) == CONTROL_SIGNAL && info.si_code == SI_QUEUE)
      serve((unsigned)info.si_value.sival_int);
  }
  return NULL;
}

/* The driver has such a thread in each process. Here it does nothing. */
static void *handle_events(void *unused) {
  (void)unused;
  prctl(PR_SET_NAME, "cuda-EvtHandlr");
  for (;;) poll(NULL, 0, -1);
  return NULL;
}

int control_start(void) {
  sigset_t all, before;
  pthread_attr_t attributes;
  pthread_t thread;
  sem_init(&ready, 0, 0);
  sigfillset(&all);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  int error = pthread_create(&thread, &attributes, handle_events, NULL);
  if (error == 0) error = pthread_create(&thread, &attributes, run, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  if (error != 0) return -1;
  while (sem_wait(&ready) != 0) continue;
  return 0;
}
