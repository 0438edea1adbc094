/* What /proc tells of a target: its mappings, the pages present in them, its threads, its descriptors. */
#ifndef MEASURE_PROC_H
#define MEASURE_PROC_H

#include <stddef.h>
#include <stdint.h>

struct mapping {
  uint64_t start, end;
  char perms[5];
  unsigned long inode;
  char name[120];
};

struct maps {
  struct mapping *items;
  size_t count, room;
};

/* Reads again into the same struct; false if the process is gone. Start with zeros. */
int maps_read(int pid, struct maps *maps);
void maps_free(struct maps *maps);
const struct mapping *maps_at(const struct maps *maps, uint64_t start); /* the one that begins there, or NULL */
int is_nvidia(const struct mapping *mapping);
int is_plain(const struct mapping *mapping); /* private, writable, anonymous, without a name */
const char *mapping_text(const struct mapping *mapping);

/* One entry of smaps; sizes in KiB. */
struct smaps {
  struct mapping mapping;
  size_t rss, anonymous, private_dirty, private_clean, huge, locked;
  char flags[160];
};

/* Calls visit for each entry that overlaps the range. */
void smaps_visit(int pid, uint64_t start, uint64_t end, void (*visit)(const struct smaps *, void *), void *argument);
void smaps_print(const struct smaps *smaps, void *indent); /* one line */
int smaps_of(int pid, uint64_t start, struct smaps *smaps); /* the entry that begins there */

/* The pages present in a range, looked at every `stride` bytes. */
struct frontier {
  size_t looked, present;
  uint64_t first, last; /* addresses */
  int from_start, to_end; /* the present ones are the first, the last, without a gap */
};

int frontier_read(int pid, uint64_t start, uint64_t end, uint64_t stride, struct frontier *frontier);

struct task {
  int tid;
  char name[16], state;
  double user, system, ran; /* seconds; `ran` is exact */
};

/* How many there are, at most `room`. */
int tasks_read(int pid, struct task *tasks, int room);

/* Prints how many descriptors and mappings of /dev/nvidia* there are, by name, in one line. */
void nvidia_print(int pid, const char *when);
int nvidia_count(int pid);

#endif
