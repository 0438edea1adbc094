/* The save area: where the GPU memory of a process is while it is checkpointed, and nowhere else. */
#ifndef SIM_SAVE_AREA_H
#define SIM_SAVE_AREA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One copy of everything, in one direction. */
struct transfer {
  int64_t start;        /* monotonic ns */
  uint64_t bandwidth;   /* bytes per second; 0: as fast as memory is */
  size_t done, total;
  bool half;            /* `middle` was called */
  bool (*middle)(void);
};

/* Makes the area, every page of it present, as one private mapping. False if memory is missing. */
bool save_area_make(size_t size);

/* Unmaps all of the area by one call; does nothing without an area. */
void save_area_unmap(void);

/* 0 without an area. */
size_t save_area_size(void);

/* What is copied between the GPU and the area goes through here, at most so much at a time. */
#define SAVE_AREA_PIECE (2 * MIB)
char *save_area_staging(void);

/* From the staging memory to a place in the area, and back. */
void save_area_store(size_t offset, size_t size);
void save_area_load(size_t offset, size_t size);

/* The area from `offset` to its end is what is saved of contexts. False if the copy shall end here, or if what a
 * restore finds is not what was saved. */
bool save_area_write_contexts(size_t offset, struct transfer *transfer);
bool save_area_check_contexts(size_t offset, struct transfer *transfer);

/* `size` bytes more are copied: waits until they may be, and calls `middle` once half of all are. False if that
 * returned false: the copy shall end here. */
bool transfer_advance(struct transfer *transfer, size_t size);

#endif
