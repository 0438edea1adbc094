/* What the controller and the code in the process agree on. HookPages.java has the same offsets. */
#ifndef HOOK_H
#define HOOK_H

#include <stddef.h>
#include <stdint.h>

#define HOOK_CODE 4096 /* bytes of code; the data follow */
#define HOOK_MOST_AREAS 8
#define HOOK_MOST_THREADS 64

/* In front of the code, and as readable and as little writable as it is. */
struct hook_head {
  uint64_t magic;
  void *(*memcpy)(void *, const void *, size_t); /* what the library called before */
  void *(*memmove)(void *, const void *, size_t);
  void *(*mmap)(void *, size_t, int, int, int, long);
  void *(*mmap64)(void *, size_t, int, int, int, long);
  uint64_t slot[4]; /* where the library keeps these pointers; 0 for none */
  uint32_t entry[4];
  uint32_t worker, store;
};

/* Where memory for a save area was taken. */
struct hook_area {
  uint64_t start, bytes, prepared;
};

/* A page of its own. In a child that was forked it is empty, so that nothing is divided among threads that are not
 * there. */
struct hook_data {
  uint32_t armed;          /* copies of the restore thread are divided */
  uint32_t restore_thread; /* its number in the process's pid namespace */
  uint32_t stop;           /* the threads end */
  uint32_t participants;   /* the threads, and the restore thread */
  uint64_t next, end;      /* memory that is there for save areas: what is left of it */
  uint32_t areas;
  uint32_t idle_seconds;   /* after which a thread ends */
  struct hook_area area[HOOK_MOST_AREAS];
  uint64_t copies, copied; /* that were divided, and their bytes */
  uint64_t stacks, stack_bytes;      /* of the threads */
  uint32_t thread[HOOK_MOST_THREADS]; /* the kernel clears the number of one that has ended */

  _Alignas(64) uint64_t ticket; /* number of the copy << 32 | its next piece that nobody has */
  uint64_t to, from, bytes, piece, pieces;
  _Alignas(64) uint32_t done; /* pieces of the copy */
  uint32_t awaited;           /* the restore thread sleeps until all are */
  _Alignas(64) uint32_t number; /* of the copy; the threads wait for the next one */
  uint32_t asleep;              /* how many do so in the kernel */
  _Alignas(64) uint32_t running; /* threads that have not ended */
};

#endif
