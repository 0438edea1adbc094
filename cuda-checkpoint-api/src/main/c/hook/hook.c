/* Code that runs in a process while its GPU memory is checkpointed or restored. libcuda calls it instead of memcpy,
 * memmove and mmap. The driver's restore thread copies 2 MiB at a time; here each of these copies is divided among
 * waiting threads, and the driver's mapping is prepared memory. Other calls, and other threads, are passed on to the
 * original functions.
 *
 * The code is position independent and has no library and no data of its own. It may stay in the process: if the
 * controller is killed, the threads end after a while, and this code copies as the C library does. */
#include "hook.h"

#include <emmintrin.h>

#define LEAST (256u << 10)  /* bytes of a copy that is divided */
#define HUGE_PAGE (2u << 20)
#define PAGE 4096u
#define SPIN 20000          /* pauses before a thread sleeps: about a millisecond */
#define CLOSED UINT32_MAX   /* the piece of a ticket without a copy */

#define NR_MUNMAP 11
#define NR_MADVISE 28
#define NR_EXIT 60
#define NR_PRCTL 157
#define NR_GETTID 186
#define NR_FUTEX 202
#define FUTEX_WAIT_PRIVATE 128
#define FUTEX_WAKE_PRIVATE 129
#define ETIMEDOUT 110
#define PR_SET_NAME 15
#define MADV_HUGEPAGE 14
#define PROT_WRITE 2
#define POPULATED_MEMORY 0x8022 /* MAP_POPULATE | MAP_ANONYMOUS | MAP_PRIVATE */
#define MAP_POPULATE 0x8000

__asm__(
    ".section .text.head,\"ax\"\n"
    ".hidden head\n"
    ".globl head\n"
    "head:\n"
    "  .quad 0x326b6f6f48555047\n" /* GPUHook2 */
    "  .fill 8, 8, 0\n"
    "  .long hook_memcpy - head, hook_memmove - head, hook_mmap - head, hook_mmap64 - head\n"
    "  .long hook_worker - head, hook_store - head\n"
    "hook_store: .fill 34, 1, 0\n" /* the controller writes StoreRoutine.java's code here */
    ".previous\n");

extern const struct hook_head head __attribute__((visibility("hidden")));

static struct hook_data *data(void) { return (struct hook_data *)((uintptr_t)&head + HOOK_CODE); }

static long call(long number, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d) {
  register uintptr_t fourth __asm__("r10") = d;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
                   : "rcx", "r11", "memory");
  return result;
}

static void bytes_by_bytes(char *to, const char *from, size_t bytes) {
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

/* Copies past the caches, since neither side is read again soon. */
static void stream(char *to, const char *from, size_t bytes) {
  size_t head_bytes = -(uintptr_t)to & 63;
  if (head_bytes > bytes) head_bytes = bytes;
  bytes_by_bytes(to, from, head_bytes);
  to += head_bytes;
  from += head_bytes;
  bytes -= head_bytes;
  for (; bytes >= 64; bytes -= 64, to += 64, from += 64) {
    __m128i a = _mm_loadu_si128((const __m128i *)(const void *)from);
    __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
    __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + 32));
    __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + 48));
    _mm_prefetch(from + 1024, _MM_HINT_T0);
    _mm_stream_si128((__m128i *)(void *)to, a);
    _mm_stream_si128((__m128i *)(void *)(to + 16), b);
    _mm_stream_si128((__m128i *)(void *)(to + 32), c);
    _mm_stream_si128((__m128i *)(void *)(to + 48), d);
  }
  _mm_sfence();
  bytes_by_bytes(to, from, bytes);
}

/* Takes a piece of the current copy and copies it; returns false if all pieces are taken. No other thread takes the same
 * piece, since the exchange fails unless the ticket is still the one of this copy and piece. The fields that are read
 * before the exchange belong to this copy, since they change only after all of its pieces are copied. */
static int take_piece(struct hook_data *h) {
  uint64_t ticket = __atomic_load_n(&h->ticket, __ATOMIC_ACQUIRE);
  for (;;) {
    uint32_t index = (uint32_t)ticket;
    if (index == CLOSED || index >= __atomic_load_n(&h->pieces, __ATOMIC_RELAXED)) return 0;
    uint64_t to = __atomic_load_n(&h->to, __ATOMIC_RELAXED), from = __atomic_load_n(&h->from, __ATOMIC_RELAXED);
    uint64_t bytes = __atomic_load_n(&h->bytes, __ATOMIC_RELAXED), piece = __atomic_load_n(&h->piece, __ATOMIC_RELAXED);
    if (__atomic_compare_exchange_n(&h->ticket, &ticket, ticket + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      uint64_t at = index * piece;
      stream((char *)to + at, (const char *)from + at, bytes - at < piece ? bytes - at : piece);
      __atomic_add_fetch(&h->done, 1, __ATOMIC_SEQ_CST);
      if (__atomic_load_n(&h->awaited, __ATOMIC_SEQ_CST)) call(NR_FUTEX, (uintptr_t)&h->done, FUTEX_WAKE_PRIVATE, 1, 0);
      return 1;
    }
  }
}

/* Waits for the pieces that other threads have taken. */
static void await_others(struct hook_data *h, uint32_t pieces) {
  uint32_t done = __atomic_load_n(&h->done, __ATOMIC_SEQ_CST);
  for (int spins = 0; done != pieces && spins < SPIN; spins++) {
    _mm_pause();
    done = __atomic_load_n(&h->done, __ATOMIC_SEQ_CST);
  }
  while (done != pieces) {
    __atomic_store_n(&h->awaited, 1, __ATOMIC_SEQ_CST);
    done = __atomic_load_n(&h->done, __ATOMIC_SEQ_CST);
    if (done != pieces) call(NR_FUTEX, (uintptr_t)&h->done, FUTEX_WAIT_PRIVATE, done, 0);
    done = __atomic_load_n(&h->done, __ATOMIC_SEQ_CST);
  }
  __atomic_store_n(&h->awaited, 0, __ATOMIC_SEQ_CST);
}

/* Only the restore thread calls this. */
static void divide(struct hook_data *h, void *to, const void *from, size_t bytes) {
  uint64_t share = 2 * (uint64_t)h->participants;
  uint64_t piece = (bytes / share + PAGE) & ~(uint64_t)(PAGE - 1);
  uint64_t pieces = (bytes + piece - 1) / piece;
  uint32_t number = h->number + 1;
  /* A thread that has read the last copy must no longer take a piece of it. */
  __atomic_store_n(&h->ticket, (uint64_t)h->number << 32 | CLOSED, __ATOMIC_SEQ_CST);
  __atomic_store_n(&h->to, (uintptr_t)to, __ATOMIC_RELAXED);
  __atomic_store_n(&h->from, (uintptr_t)from, __ATOMIC_RELAXED);
  __atomic_store_n(&h->bytes, bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&h->piece, piece, __ATOMIC_RELAXED);
  __atomic_store_n(&h->pieces, pieces, __ATOMIC_RELAXED);
  __atomic_store_n(&h->done, 0, __ATOMIC_SEQ_CST);
  __atomic_store_n(&h->ticket, (uint64_t)number << 32, __ATOMIC_SEQ_CST);
  __atomic_store_n(&h->number, number, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&h->asleep, __ATOMIC_SEQ_CST))
    call(NR_FUTEX, (uintptr_t)&h->number, FUTEX_WAKE_PRIVATE, INT32_MAX, 0);
  while (take_piece(h)) {}
  await_others(h, (uint32_t)pieces);
  h->copies++;
  h->copied += bytes;
}

static int is_restore_thread(const struct hook_data *h) {
  return __atomic_load_n(&h->armed, __ATOMIC_ACQUIRE) && (uint32_t)call(NR_GETTID, 0, 0, 0, 0) == h->restore_thread;
}

__attribute__((used)) void *hook_memcpy(void *to, const void *from, size_t bytes) {
  struct hook_data *h = data();
  if (bytes < LEAST || !is_restore_thread(h)) return head.memcpy(to, from, bytes);
  divide(h, to, from, bytes);
  return to;
}

__attribute__((used)) void *hook_memmove(void *to, const void *from, size_t bytes) {
  struct hook_data *h = data();
  uintptr_t a = (uintptr_t)to, b = (uintptr_t)from;
  int overlap = a < b + bytes && b < a + bytes;
  if (bytes < LEAST || overlap || !is_restore_thread(h)) return head.memmove(to, from, bytes);
  divide(h, to, from, bytes);
  return to;
}

/* Takes prepared memory; returns 0 if there is too little. The driver unmaps only the bytes that it asked for, so the
 * rest of the last huge page is unmapped here. */
static uintptr_t prepared(struct hook_data *h, size_t bytes) {
  size_t pages = (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
  size_t all = (bytes + HUGE_PAGE - 1) & ~(size_t)(HUGE_PAGE - 1);
  uint64_t next = __atomic_load_n(&h->next, __ATOMIC_ACQUIRE);
  do {
    if (next == 0 || all > h->end - next) return 0;
  } while (!__atomic_compare_exchange_n(&h->next, &next, next + all, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
  if (all > pages) call(NR_MUNMAP, next + pages, all - pages, 0, 0);
  return next;
}

static void *map(void *(*old)(void *, size_t, int, int, int, long), void *where, size_t bytes, int protection, int flags,
                 int file, long offset) {
  struct hook_data *h = data();
  int wanted = (flags & POPULATED_MEMORY) == POPULATED_MEMORY && (protection & PROT_WRITE) && where == NULL;
  if (!wanted || bytes == 0 || !is_restore_thread(h)) return old(where, bytes, protection, flags, file, offset);
  uintptr_t made = h->areas < HOOK_MOST_AREAS ? prepared(h, bytes) : 0; /* what is not recorded is truncated */
  int is_prepared = made != 0;
  if (!is_prepared) {
    /* Huge pages, if available, made when they are written. */
    made = (uintptr_t)old(where, bytes, protection, flags & ~MAP_POPULATE, file, offset);
    if (made == UINTPTR_MAX) return (void *)made;
    call(NR_MADVISE, made, bytes, MADV_HUGEPAGE, 0);
  }
  if (h->areas < HOOK_MOST_AREAS) {
    struct hook_area area = {made, bytes, (uint64_t)is_prepared};
    h->area[h->areas] = area;
  }
  h->areas++;
  return (void *)made;
}

__attribute__((used)) void *hook_mmap(void *where, size_t bytes, int protection, int flags, int file, long offset) {
  return map(head.mmap, where, bytes, protection, flags, file, offset);
}

__attribute__((used)) void *hook_mmap64(void *where, size_t bytes, int protection, int flags, int file, long offset) {
  return map(head.mmap64, where, bytes, protection, flags, file, offset);
}

/* Returns whether another copy began within a second. */
static int await_copy(struct hook_data *h, uint32_t seen) {
  for (int spins = 0; spins < SPIN; spins++) {
    if (__atomic_load_n(&h->number, __ATOMIC_ACQUIRE) != seen) return 1;
    _mm_pause();
  }
  struct { int64_t seconds, nanoseconds; } second = {1, 0};
  __atomic_add_fetch(&h->asleep, 1, __ATOMIC_SEQ_CST);
  long answer = 0;
  if (!__atomic_load_n(&h->stop, __ATOMIC_SEQ_CST))
    answer = call(NR_FUTEX, (uintptr_t)&h->number, FUTEX_WAIT_PRIVATE, seen, (uintptr_t)&second);
  __atomic_sub_fetch(&h->asleep, 1, __ATOMIC_SEQ_CST);
  return answer != -ETIMEDOUT;
}

/* The last thread unmaps the rest of the prepared memory, which the driver can no longer take. */
static void leave(struct hook_data *h) {
  if (__atomic_sub_fetch(&h->running, 1, __ATOMIC_SEQ_CST) > 0) return;
  uint64_t next = __atomic_exchange_n(&h->next, 0, __ATOMIC_SEQ_CST);
  if (next != 0 && next < h->end) call(NR_MUNMAP, next, h->end - next, 0, 0);
}

/* A thread of the hook, on a small stack, with all signals blocked. */
__attribute__((used, noreturn)) void hook_worker(void) {
  struct hook_data *h = data();
  char name[16] = {'g', 'p', 'u', '-', 'm', 'e', 'm', 'o', 'r', 'y', '-', 'c', 'o', 'p', 'y', 0};
  call(NR_PRCTL, PR_SET_NAME, (uintptr_t)name, 0, 0);
  uint32_t idle = 0;
  while (idle < h->idle_seconds && !__atomic_load_n(&h->stop, __ATOMIC_SEQ_CST)) {
    uint32_t seen = __atomic_load_n(&h->number, __ATOMIC_ACQUIRE);
    if (take_piece(h)) idle = 0;
    else if (!await_copy(h, seen)) idle++;
  }
  leave(h);
  for (;;) call(NR_EXIT, 0, 0, 0, 0);
}
