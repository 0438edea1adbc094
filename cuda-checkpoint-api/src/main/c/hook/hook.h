/* The pages that the controller and the code in the process share. HookPages.java has the same offsets. */
#ifndef HOOK_H
#define HOOK_H

#include <stddef.h>
#include <stdint.h>

#define HOOK_CODE 4096 /* bytes of code, which the data follow */
#define HOOK_MOST_AREAS 8
#define HOOK_MOST_THREADS 64

/* At the beginning of the code, and read-only as the code is. */
struct hook_head {
  uint64_t magic;
  void *(*memcpy)(void *, const void *, size_t); /* the functions that the library called before */
  void *(*memmove)(void *, const void *, size_t);
  void *(*mmap)(void *, size_t, int, int, int, long);
  void *(*mmap64)(void *, size_t, int, int, int, long);
  uint64_t slot[4]; /* the addresses of the library's pointers to them; 0 for none */
  uint32_t entry[4];
  uint32_t worker, store;
};

/* A save area of the driver. */
struct hook_area {
  uint64_t start, bytes, prepared;
};

/* The data have a page of their own. In a forked child the page is empty, so that copies are not divided among threads
 * that do not exist there. */
struct hook_data {
  uint32_t armed;          /* copies of the restore thread are divided */
  uint32_t restore_thread; /* its id in the process's pid namespace */
  uint32_t stop;           /* the threads end */
  uint32_t participants;   /* the threads, and the restore thread */
  uint64_t next, end;      /* the rest of the prepared memory for save areas */
  uint32_t areas;
  uint32_t idle_seconds;   /* after which a thread without work ends */
  struct hook_area area[HOOK_MOST_AREAS];
  uint64_t copies, copied; /* the divided copies, and their bytes */
  uint64_t stacks, stack_bytes;      /* of the threads */
  uint32_t thread[HOOK_MOST_THREADS]; /* ids; the kernel clears the id of a thread that has ended */

  _Alignas(64) uint64_t ticket; /* number of the copy << 32 | its next piece that no thread has */
  uint64_t to, from, bytes, piece, pieces;
  _Alignas(64) uint32_t done; /* copied pieces */
  uint32_t awaited;           /* the restore thread sleeps until all pieces are copied */
  _Alignas(64) uint32_t number; /* of the copy; the threads wait for the next one */
  uint32_t asleep;              /* the threads that wait in the kernel */
  _Alignas(64) uint32_t running; /* threads that have not ended */
};

#endif
