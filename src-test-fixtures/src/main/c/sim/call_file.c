/* Making and deleting a file takes longer than the rest of a call, so a few are kept for the next calls: closed, since
 * a caller may itself be dumped, and only their numbers remembered. */
#include "call_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control.h"

#define KEPT 8

static unsigned kept[KEPT]; /* 0: none */
static pid_t owner;         /* a child of fork leaves its parent's files alone */

static unsigned take(void) {
  for (int i = 0; owner == getpid() && i < KEPT; i++) {
    unsigned id = __atomic_exchange_n(&kept[i], 0, __ATOMIC_ACQ_REL);
    if (id != 0) return id;
  }
  return 0;
}

static bool keep(unsigned id) {
  if (owner != getpid()) {
    for (int i = 0; i < KEPT; i++) __atomic_store_n(&kept[i], 0, __ATOMIC_RELAXED);
    owner = getpid();
  }
  for (int i = 0; i < KEPT; i++) {
    unsigned none = 0;
    if (__atomic_compare_exchange_n(&kept[i], &none, id, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return true;
  }
  return false;
}

static int open_and_lock(unsigned id, int flags) {
  char path[PATH_MAX];
  machine_path(path, "state/calls/%08x", id);
  int fd = open(path, O_RDWR | O_CLOEXEC | flags, 0666);
  if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  close(fd);
  return -1;
}

static void delete(unsigned id) {
  char path[PATH_MAX];
  machine_path(path, "state/calls/%08x", id);
  unlink(path);
}

static int make(unsigned *id) {
  for (int attempt = 0; attempt < 100; attempt++) {
    if (getrandom(id, sizeof *id, 0) != sizeof *id) return -1;
    *id = (*id & 0x7fffffff) | 1; /* positive: it travels as an int, and 0 is none */
    int fd = open_and_lock(*id, O_CREAT | O_EXCL);
    if (fd >= 0) {
      (void)!fchmod(fd, 0666); /* the target may be another user's */
      if (ftruncate(fd, sizeof(struct control_call)) == 0) return fd;
      delete(*id);
      close(fd);
      return -1;
    }
    if (errno != EEXIST) return -1;
  }
  return -1;
}

int call_file_open(unsigned *id) {
  *id = take();
  int fd = *id == 0 ? -1 : open_and_lock(*id, 0);
  return fd >= 0 ? fd : make(id);
}

void call_file_close(int fd, unsigned id) {
  close(fd);
  if (!keep(id)) delete(id);
}

__attribute__((destructor)) static void delete_kept(void) {
  for (unsigned id = take(); id != 0; id = take()) delete(id);
}
