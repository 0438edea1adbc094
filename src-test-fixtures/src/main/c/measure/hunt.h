/* Finds the memory that the driver maps for a checkpoint as soon as it exists, and prepares it from outside: huge
 * pages, and pages ahead of the driver, by system calls that idle threads of the target run.
 *
 * The driver (580) maps with MAP_POPULATE, so the mapping is seen while the kernel fills it and holds the lock on the
 * mappings: populating goes on beside it, but MADV_HUGEPAGE waits until all pages are there, and helpers that wait for
 * it come too late. For huge pages the driver's thread must be stopped in its mmap: hunt_trap. */
#ifndef MEASURE_HUNT_H
#define MEASURE_HUNT_H

#include <pthread.h>
#include <stdatomic.h>

#include "harness.h"
#include "proc.h"
#include "trace.h"

enum { AREAS = 64, HELPERS = 8 };

struct area {
  uint64_t start, end;
  double seen; /* seconds after hunt_start */
};

struct hunt {
  /* what to do */
  struct target *target;
  int huge;    /* MADV_HUGEPAGE as soon as it is seen */
  int trap;    /* MADV_HUGEPAGE by the driver's own thread, before it does anything with the memory */
  int helpers; /* threads that populate, 0 to HELPERS */
  /* what was found */
  struct area areas[AREAS];
  int count;
  size_t bytes, populated;
  double finished; /* when the last slice was populated, seconds after hunt_start */
  int errors;
  long last_error;
  int flags; /* with a trap, those the driver gave to mmap */
  /* inside */
  struct maps before, now;
  struct trace *tracer;
  double begin;
  pthread_t hunter, threads[HELPERS];
  pthread_mutex_t mutex;
  _Atomic int over;
  int filled_to, slice_of; /* areas whose slices may be taken; the one they are taken from */
  uint64_t next_slice;
};

/* The target must have more idle threads than there are helpers. */
void hunt_start(struct hunt *hunt, struct target *target, int huge, int helpers);

/* The same with a trap for the driver's thread instead of looking at /proc. */
void hunt_trap(struct hunt *hunt, struct target *target, int helpers);

/* To be called when the checkpoint has returned; looks a last time. */
void hunt_stop(struct hunt *hunt);

/* KiB of the areas that are resident, and in huge pages. */
void hunt_pages(const struct hunt *hunt, size_t *rss, size_t *huge);

#endif
