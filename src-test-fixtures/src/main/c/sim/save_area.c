/* As driver 580 does it: the restore thread makes one private anonymous mapping with MAP_POPULATE, copies between it
 * and staging memory of the GPU itself, with the C library's memcpy in pieces of 2 MiB, and unmaps it as a whole
 * when a restore has copied it back. It calls mmap, munmap and memcpy as any library does, through the table of what it
 * imports.
 *
 * What the driver saves of a context is its own affair. Here it is words that are made at the checkpoint and looked at
 * by the restore, so that a save area which did not come back whole is noticed. */
#include "save_area.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "process.h"

static char *area;
static size_t area_size;
static char staging[SAVE_AREA_PIECE] __attribute__((aligned(4096)));
static uint64_t seed; /* of the contexts' words; another one at each checkpoint */

bool save_area_make(size_t size) {
  if (size == 0) return true;
  void *made = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (made == MAP_FAILED) return false;
  area = made;
  area_size = size;
  return true;
}

void save_area_unmap(void) {
  if (area_size > 0) munmap(area, area_size);
  area = NULL;
  area_size = 0;
}

size_t save_area_size(void) { return area_size; }

char *save_area_staging(void) { return staging; }

void save_area_store(size_t offset, size_t size) { memcpy(area + offset, staging, size); }

void save_area_load(size_t offset, size_t size) { memcpy(staging, area + offset, size); }

/* Waits until so much may have been copied. */
static void pace(const struct transfer *t) {
  if (t->bandwidth == 0) return;
  int64_t due = t->start + (int64_t)((double)t->done / (double)t->bandwidth * 1e9);
  struct timespec when = {.tv_sec = due / 1000000000, .tv_nsec = due % 1000000000};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
}

bool transfer_advance(struct transfer *t, size_t size) {
  t->done += size;
  pace(t);
  if (t->half || t->done < t->total / 2) return true;
  t->half = true;
  return t->middle();
}

static uint64_t word(size_t index) { return (index + seed) * 0x9e3779b97f4a7c15ull ^ seed; }

static bool move_contexts(bool write, size_t offset, struct transfer *transfer) {
  uint64_t *words = (uint64_t *)(void *)staging;
  for (size_t at = offset; at < area_size; at += SAVE_AREA_PIECE) {
    size_t size = area_size - at < SAVE_AREA_PIECE ? area_size - at : SAVE_AREA_PIECE;
    size_t first = (at - offset) / sizeof *words;
    uint64_t differing = 0;
    if (!write) save_area_load(at, size);
    for (size_t i = 0; i < size / sizeof *words; i++) {
      if (write) words[i] = word(first + i);
      else differing |= words[i] ^ word(first + i);
    }
    if (write) save_area_store(at, size);
    if (differing != 0 || !transfer_advance(transfer, size)) return false;
  }
  return true;
}

bool save_area_write_contexts(size_t offset, struct transfer *transfer) {
  seed = (uint64_t)monotonic_ns();
  return move_contexts(true, offset, transfer);
}

bool save_area_check_contexts(size_t offset, struct transfer *transfer) {
  return move_contexts(false, offset, transfer);
}
