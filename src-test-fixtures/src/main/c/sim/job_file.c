#include "job_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define VARIABLE "CUDA_CHECKPOINT_JOB_FILE"
#define FIRST_VERSION 13010 /* driver 590 */

/* One for each member, in the order in which they joined. */
struct entry {
  uint64_t member;     /* from 1 */
  uint64_t checkpoint; /* how many there were of it */
  uint64_t away;       /* 1 from a checkpoint to the restore */
};

/* In an image, too: none of it is a descriptor or a mapping. */
static char path[PATH_MAX];
static uint64_t member, last_checkpoint;

static bool is_known(void) { return machine()->version >= FIRST_VERSION; }

void job_file_name(struct control_call *call) {
  const char *name = getenv(VARIABLE);
  struct stat found;
  if (!is_known() || name == NULL || stat(name, &found) != 0) return;
  call->job_device = found.st_dev;
  call->job_inode = found.st_ino;
}

/* Locked against the other members. */
static int open_file(void) {
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd >= 0 && TEMP_FAILURE_RETRY(flock(fd, LOCK_EX)) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

static bool read_entry(int fd, struct entry *entry) {
  return pread(fd, entry, sizeof *entry, (off_t)((member - 1) * sizeof *entry)) == sizeof *entry && entry->member == member;
}

static CUresult write_entry(int fd, const struct entry *entry) {
  return pwrite(fd, entry, sizeof *entry, (off_t)((member - 1) * sizeof *entry)) == sizeof *entry
             ? CUDA_SUCCESS
             : CUDA_ERROR_OPERATING_SYSTEM;
}

int job_file_join(void) {
  const char *name = getenv(VARIABLE);
  if (!is_known() || name == NULL || *name == '\0') return 0;
  snprintf(path, sizeof path, "%s", name);
  int fd = open_file();
  if (fd < 0) return -1;
  struct stat found;
  struct entry entry = {0};
  bool joined = false;
  if (fstat(fd, &found) == 0 && found.st_size % (off_t)sizeof entry == 0) {
    member = entry.member = (uint64_t)found.st_size / sizeof entry + 1;
    joined = write_entry(fd, &entry) == CUDA_SUCCESS;
  }
  close(fd);
  return joined ? 0 : -1;
}

CUresult job_file_same(const struct control_call *call) {
  struct stat found;
  if (member == 0) return CUDA_SUCCESS;
  return stat(path, &found) == 0 && call->job_device == found.st_dev && call->job_inode == found.st_ino
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

static CUresult change(bool away) {
  struct entry entry;
  if (member == 0) return CUDA_SUCCESS;
  int fd = open_file();
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  if (read_entry(fd, &entry)) {
    entry.away = away;
    entry.checkpoint += away;
    last_checkpoint = entry.checkpoint;
    result = write_entry(fd, &entry);
  }
  close(fd);
  return result;
}

CUresult job_file_left(void) { return change(true); }

CUresult job_file_knows(void) {
  struct entry entry;
  if (member == 0) return CUDA_SUCCESS;
  int fd = open_file();
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  bool known = read_entry(fd, &entry) && entry.away == 1 && entry.checkpoint == last_checkpoint;
  close(fd);
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult job_file_returned(void) { return change(false); }
