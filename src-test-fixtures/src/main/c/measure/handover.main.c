/* How fast the driver restores when the save area is a mapped file.
 *
 *   handover SIZE FILE HELPERS MODE...
 *
 * While the process is checkpointed its save area is copied into FILE and the file is mapped over it (private), by a
 * thread of the target. Then the driver restores:
 * cached      the file's pages are in memory
 * populate    the same, and 4 threads of the target run MADV_POPULATE_READ at the same time
 * cold        the pages were written to disk and dropped from memory
 * cold-ahead  the same, and 8 threads of this process read the file at the same time
 * cold-populate  the same, and 4 threads of the target run MADV_POPULATE_READ at the same time
 * none        no file, for comparison
 * HELPERS: threads that populate (small pages) during the checkpoint. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "harness.h"
#include "hunt.h"
#include "inject.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

enum { COPIERS = 8, READERS = 8, POPULATORS = 4, CHUNK = 2 << 20, PIECE = 16 << 20 };

struct copy {
  struct target *target;
  uint64_t start, end, offset; /* of the area, in the file */
  int fd;
  _Atomic uint64_t next;
  _Atomic int failed;
};

static void *copy_out(void *argument) {
  struct copy *c = argument;
  char *buffer = aligned_alloc(4096, CHUNK);
  for (uint64_t at; !c->failed && (at = atomic_fetch_add(&c->next, CHUNK)) < c->end - c->start;) {
    uint64_t size = c->end - c->start - at < CHUNK ? c->end - c->start - at : CHUNK;
    struct iovec here = {buffer, size}, there = {(void *)(uintptr_t)(c->start + at), size};
    if (process_vm_readv(c->target->pid, &here, 1, &there, 1, 0) != (ssize_t)size ||
        pwrite(c->fd, buffer, size, (off_t)(c->offset + at)) != (ssize_t)size)
      c->failed = errno;
  }
  free(buffer);
  return NULL;
}

static int copy_area(struct target *t, const struct area *a, int fd, uint64_t offset) {
  struct copy c = {.target = t, .start = a->start, .end = a->end, .offset = offset, .fd = fd};
  pthread_t threads[COPIERS];
  for (int i = 0; i < COPIERS; i++) pthread_create(&threads[i], NULL, copy_out, &c);
  for (int i = 0; i < COPIERS; i++) pthread_join(threads[i], NULL);
  if (c.failed) printf("  copying: %s\n", strerror(c.failed));
  return !c.failed;
}

/* Maps the file over the areas; the path travels in a page that is mapped for it. */
static int map_over(struct target *t, const struct hunt *h, const char *path) {
  struct captive captive;
  if (!captive_take(&captive, t->board->idle_tid[0])) return 0;
  long page = captive_call(&captive, SYS_mmap,
                           (long[6]){0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0});
  struct iovec here = {(void *)(uintptr_t)path, strlen(path) + 1}, there = {(void *)page, strlen(path) + 1};
  int fine = page > 0 && process_vm_writev(t->pid, &here, 1, &there, 1, 0) > 0;
  long fd = fine ? captive_call(&captive, SYS_open, (long[6]){page, O_RDONLY | O_CLOEXEC, 0, 0, 0, 0}) : -1;
  uint64_t offset = 0;
  for (int i = 0; fine && i < h->count; i++) {
    const struct area *a = &h->areas[i];
    long at = captive_call(&captive, SYS_mmap,
                           (long[6]){(long)a->start, (long)(a->end - a->start), PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_FIXED, fd, (long)offset});
    if (at != (long)a->start) {
      printf("  mapping the file answers %ld\n", at);
      fine = 0;
    }
    offset += a->end - a->start;
  }
  if (fd >= 0) captive_call(&captive, SYS_close, (long[6]){fd, 0, 0, 0, 0, 0});
  if (page > 0) captive_call(&captive, SYS_munmap, (long[6]){page, 4096, 0, 0, 0, 0});
  captive_release(&captive);
  return fine && fd >= 0;
}

struct ahead {
  struct target *target;
  const struct hunt *hunt;
  const char *path;
  _Atomic uint64_t next;
  _Atomic int number, errors;
  double finished;
};

static void *read_ahead(void *argument) {
  struct ahead *a = argument;
  int fd = open(a->path, O_RDONLY | O_CLOEXEC);
  char *buffer = aligned_alloc(4096, CHUNK);
  for (uint64_t at; (at = atomic_fetch_add(&a->next, CHUNK)) < a->hunt->bytes;)
    if (pread(fd, buffer, CHUNK, (off_t)at) <= 0) atomic_fetch_add(&a->errors, 1);
  a->finished = seconds();
  free(buffer);
  close(fd);
  return NULL;
}

static void *populate_ahead(void *argument) {
  struct ahead *a = argument;
  struct captive captive;
  if (!captive_take(&captive, a->target->board->idle_tid[1 + atomic_fetch_add(&a->number, 1)])) return NULL;
  for (uint64_t at; (at = atomic_fetch_add(&a->next, PIECE)) < a->hunt->bytes;) {
    uint64_t offset = at;
    int i = 0;
    while (i < a->hunt->count - 1 && offset >= a->hunt->areas[i].end - a->hunt->areas[i].start)
      offset -= a->hunt->areas[i].end - a->hunt->areas[i].start, i++;
    uint64_t left = a->hunt->areas[i].end - a->hunt->areas[i].start - offset;
    long result = captive_call(&captive, SYS_madvise,
                               (long[6]){(long)(a->hunt->areas[i].start + offset), (long)(left < PIECE ? left : PIECE),
                                         MADV_POPULATE_READ, 0, 0, 0});
    if (result != 0) atomic_fetch_add(&a->errors, 1);
  }
  a->finished = seconds();
  captive_release(&captive);
  return NULL;
}

static void make_cold(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC), drop = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
  double begin = seconds();
  fsync(fd);
  double synced = seconds();
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  if (drop < 0 || write(drop, "1", 1) != 1) printf("  caches are not dropped: %s\n", strerror(errno));
  close(drop);
  close(fd);
  printf("  sync %.2f s, drop %.2f s\n", synced - begin, seconds() - synced);
}

static int one(struct target *t, const char *mode, const char *path, int helpers, size_t bytes) {
  struct hunt h;
  struct outcome lock = act(t, LOCK, 10000);
  hunt_start(&h, t, 0, helpers);
  struct outcome checkpoint = act(t, CHECKPOINT, 0);
  hunt_stop(&h);
  if (lock.result != 0 || checkpoint.result != 0) {
    printf("  answers %d %d\n", lock.result, checkpoint.result);
    return 0;
  }
  unlink(path);
  double begin = seconds(), copied = begin, mapped = begin;
  if (strcmp(mode, "none") != 0) {
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    uint64_t offset = 0;
    int fine = fd >= 0;
    for (int i = 0; fine && i < h.count; offset += h.areas[i].end - h.areas[i].start, i++)
      fine = copy_area(t, &h.areas[i], fd, offset);
    if (fd >= 0) close(fd);
    copied = seconds();
    if (!fine || !map_over(t, &h, path)) return 0;
    mapped = seconds();
    if (strncmp(mode, "cold", 4) == 0) make_cold(path);
  }
  struct ahead ahead = {.target = t, .hunt = &h, .path = path};
  pthread_t threads[READERS];
  int count = strcmp(mode, "cold-ahead") == 0 ? READERS : strstr(mode, "populate") != NULL ? POPULATORS : 0;
  double start = seconds();
  for (int i = 0; i < count; i++)
    pthread_create(&threads[i], NULL, count == READERS ? read_ahead : populate_ahead, &ahead);
  struct outcome restore = act(t, RESTORE, 0);
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
  struct outcome unlock = act(t, UNLOCK, 0);
  printf("  %-13s checkpoint %.3f s; copy out %.3f s %.2f GB/s, map %.4f s; restore %.3f s %.2f GB/s", mode,
         checkpoint.seconds, copied - begin, copied > begin ? (double)h.bytes / (copied - begin) / 1e9 : 0,
         mapped - copied, restore.seconds, (double)bytes / restore.seconds / 1e9);
  if (count > 0) printf("; ahead done at %.3f s, %d errors", ahead.finished - start, ahead.errors);
  int fine = restore.result == 0 && unlock.result == 0;
  if (!fine) printf("; answers %s, %d", result_name(restore.result), unlock.result);
  const char *answer = fine ? target_ask(t, "verify 4", 60) : NULL;
  printf("; %s\n", answer == NULL ? "no answer" : answer);
  return fine && answer != NULL;
}

int main(int argc, char **argv) {
  struct target t;
  char options[64];
  if (argc < 5) {
    fprintf(stderr, "usage: handover SIZE FILE HELPERS MODE...\n");
    return 2;
  }
  harness_start();
  snprintf(options, sizeof options, "gpu=%s idle=%d", argv[1], HELPERS + 1);
  if (!target_start(&t, options)) return 1;
  for (int i = 4; i < argc; i++)
    if (!one(&t, argv[i], argv[2], atoi(argv[3]), bytes_of(argv[1]))) break;
  target_stop(&t);
  unlink(argv[2]);
  return 0;
}
