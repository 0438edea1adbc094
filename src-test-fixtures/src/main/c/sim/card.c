/* GPU memory accounting, see card.h. The bytes themselves are in memfds of their owners, so the kernel frees
 * them when the owner dies; only the sums are kept here. A lock rather than a pid says whether the owner lives,
 * which holds across pid namespaces and cannot mistake a recycled pid for it. */
#include "card.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Held while this process has the lock of the machine, and while it forks: a child that inherited the descriptor would
 * keep the machine locked. */
static pthread_mutex_t here = PTHREAD_MUTEX_INITIALIZER;

/* Of the record, where its mapping keeps no lock; else -1. */
static int descriptor = -1;

static void before_fork(void) { pthread_mutex_lock(&here); }
static void in_parent(void) { pthread_mutex_unlock(&here); }

static void close_descriptor(void) {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

static void in_child(void) {
  close_descriptor();
  pthread_mutex_unlock(&here);
}

__attribute__((constructor)) static void handle_forks(void) { pthread_atfork(before_fork, in_parent, in_child); }

static void unlock_machine(int lock) {
  if (lock >= 0) close(lock);
  pthread_mutex_unlock(&here);
}

/* Returns -1, and has nothing locked, where the file cannot be opened. */
static int lock_machine(void) {
  machine();
  pthread_mutex_lock(&here);
  int fd = machine_open("state/lock");
  if (fd >= 0) TEMP_FAILURE_RETRY(flock(fd, LOCK_EX));
  else unlock_machine(fd);
  return fd;
}

/* A mapping of a file on overlayfs is one of the file below, which is not locked. */
static bool mapping_keeps_lock(void) {
  char path[PATH_MAX];
  struct statfs status;
  machine_path(path, "state");
  return statfs(path, &status) != 0 || status.f_type != OVERLAYFS_SUPER_MAGIC;
}

/* A record that is open has the name of a device file: the checks before a dump of a running process accept those alone. */
static const char *place(void) { return mapping_keeps_lock() ? "state/usage" : "dev/nvidia-usage"; }

static void record_path(char path[PATH_MAX], const struct usage *record) {
  machine_path(path, "%s/%d.%d", place(), record->pid, record->number);
}

/* Writes the whole record first, so that the file system has room for what is charged later. */
static struct usage *map(int fd, const struct usage *empty) {
  if (flock(fd, LOCK_EX) != 0 || pwrite(fd, empty, sizeof *empty, 0) != sizeof *empty) return NULL;
  void *record = mmap(NULL, sizeof *empty, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (record == MAP_FAILED) return NULL;
  if (madvise(record, sizeof *empty, MADV_DONTFORK) == 0) return record;
  munmap(record, sizeof *empty);
  return NULL;
}

struct usage *card_join(void) {
  int lock = lock_machine();
  if (lock < 0) return NULL;
  struct usage empty = {.pid = getpid(), .number = -1};
  char path[PATH_MAX];
  int fd = -1;
  while (fd < 0 && ++empty.number < 1000) {
    record_path(path, &empty);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  }
  struct usage *record = NULL;
  if (fd >= 0) {
    (void)!fchmod(fd, 0666);
    record = map(fd, &empty);
    if (record == NULL) unlink(path);
    if (record == NULL || mapping_keeps_lock()) close(fd);
    else descriptor = fd;
  }
  unlock_machine(lock);
  return record;
}

void card_leave(struct usage *record) {
  if (record == NULL) return;
  char path[PATH_MAX];
  record_path(path, record);
  unlink(path);
  munmap(record, sizeof *record);
  close_descriptor();
}

/* Needs the machine lock. False when a record could not be read: the sum would be too small. */
static bool visit_all(void (*visit)(const struct usage *, void *), void *argument) {
  char path[PATH_MAX];
  machine_path(path, "%s", place());
  DIR *directory = opendir(path);
  if (directory == NULL) return errno == ENOENT;
  bool all = true;
  const struct dirent *entry;
  while ((entry = readdir(directory)) != NULL) {
    if (entry->d_name[0] == '.') continue;
    int fd = openat(dirfd(directory), entry->d_name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
      all &= errno == ENOENT;
      continue;
    }
    struct usage usage;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlinkat(dirfd(directory), entry->d_name, 0);
    else if (pread(fd, &usage, sizeof usage, 0) == sizeof usage) visit(&usage, argument);
    close(fd);
  }
  closedir(directory);
  return all;
}

bool card_visit(void (*visit)(const struct usage *, void *), void *argument) {
  int lock = lock_machine();
  if (lock < 0) return false;
  bool all = visit_all(visit, argument);
  unlock_machine(lock);
  return all;
}

static void add(const struct usage *usage, void *argument) {
  struct usage *sum = argument;
  for (int i = 0; i < SIM_MAX_GPUS; i++) sum->used[i] += usage->used[i];
}

bool card_used(int gpu, uint64_t *used) {
  struct usage sum = {0};
  bool all = card_visit(add, &sum);
  *used = sum.used[gpu];
  return all;
}

CUresult card_charge(struct usage *record, const uint64_t used[SIM_MAX_GPUS]) {
  int lock = lock_machine();
  if (lock < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  struct usage sum = {0};
  CUresult result = visit_all(add, &sum) ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
  for (int i = 0; result == CUDA_SUCCESS && i < SIM_MAX_GPUS; i++) {
    bool more = used[i] > record->used[i];
    if (more && sum.used[i] - record->used[i] + used[i] > machine()->memory) result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result == CUDA_SUCCESS) memcpy(record->used, used, sizeof record->used);
  unlock_machine(lock);
  return result;
}
