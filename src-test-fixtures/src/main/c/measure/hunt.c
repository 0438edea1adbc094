#include "hunt.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "inject.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Mappings below that are not worth the while. */
static const uint64_t smallest = 4 << 20, slice = 64 << 20, huge_page = 2 << 20;

static void note(struct hunt *h, uint64_t start, uint64_t end) {
  if (end - start < smallest || h->count == AREAS) return;
  h->areas[h->count] = (struct area){start, end, seconds() - h->begin};
  h->bytes += end - start;
  h->count++;
}

/* Takes away what was there before or is known; what is left of the range is new. */
static void note_new_parts(struct hunt *h, uint64_t start, uint64_t end) {
  for (size_t i = 0; i < h->before.count && start < end; i++) {
    const struct mapping *m = &h->before.items[i];
    if (m->end <= start || m->start >= end || !is_plain(m)) continue;
    if (m->start > start) note_new_parts(h, start, m->start);
    start = m->end;
  }
  for (int i = 0; i < h->count && start < end; i++) {
    const struct area *a = &h->areas[i];
    if (a->end <= start || a->start >= end) continue;
    if (a->start > start) note_new_parts(h, start, a->start);
    start = a->end;
  }
  if (start < end) note(h, start, end);
}

static void look(struct hunt *h) {
  if (!maps_read(h->target->pid, &h->now)) return;
  for (size_t i = 0; i < h->now.count; i++)
    if (is_plain(&h->now.items[i]) && h->now.items[i].end - h->now.items[i].start >= smallest)
      note_new_parts(h, h->now.items[i].start, h->now.items[i].end);
}

static void fail(struct hunt *h, long error) {
  pthread_mutex_lock(&h->mutex);
  h->errors++;
  h->last_error = error;
  pthread_mutex_unlock(&h->mutex);
}

static long advise(struct captive *captive, uint64_t start, uint64_t end, int advice) {
  return captive_call(captive, SYS_madvise, (long[6]){(long)start, (long)(end - start), advice, 0, 0, 0});
}

static void *hunt(void *argument) {
  struct hunt *h = argument;
  struct captive captive;
  int held = 0, done = 0;
  while (!atomic_load(&h->over)) {
    look(h);
    for (; done < h->count; done++) {
      if (h->huge && !held) held = captive_take(&captive, h->target->board->idle_tid[0]);
      if (h->huge && held) {
        long result = advise(&captive, h->areas[done].start, h->areas[done].end, MADV_HUGEPAGE);
        if (result != 0) fail(h, result);
      }
      pthread_mutex_lock(&h->mutex);
      h->filled_to = done + 1;
      pthread_mutex_unlock(&h->mutex);
    }
    sleep_for(0.001);
  }
  if (held) captive_release(&captive);
  return NULL;
}

static int take_slice(struct hunt *h, uint64_t *start, uint64_t *end) {
  int found = 0;
  pthread_mutex_lock(&h->mutex);
  while (h->slice_of < h->filled_to && !found) {
    const struct area *a = &h->areas[h->slice_of];
    if (h->next_slice < a->start || h->next_slice >= a->end) h->next_slice = a->start;
    *start = h->next_slice;
    *end = (*start + slice) / huge_page * huge_page;
    if (*end >= a->end) {
      *end = a->end;
      h->slice_of++;
    }
    h->next_slice = *end;
    found = 1;
  }
  pthread_mutex_unlock(&h->mutex);
  return found;
}

struct helper {
  struct hunt *hunt;
  int number;
};

static void *help(void *argument) {
  struct hunt *h = ((struct helper *)argument)->hunt;
  int tid = h->target->board->idle_tid[1 + ((struct helper *)argument)->number], held = 0;
  struct captive captive;
  uint64_t start, end;
  while (!atomic_load(&h->over)) {
    if (!take_slice(h, &start, &end)) {
      sleep_for(0.0005);
      continue;
    }
    if (!held && !(held = captive_take(&captive, tid))) break;
    long result = advise(&captive, start, end, MADV_POPULATE_WRITE);
    if (result != 0) fail(h, result);
    pthread_mutex_lock(&h->mutex);
    if (result == 0) h->populated += end - start;
    h->finished = seconds() - h->begin;
    pthread_mutex_unlock(&h->mutex);
  }
  if (held) captive_release(&captive);
  return NULL;
}

static void caught(void *argument, uint64_t start, uint64_t end, long advised, int flags) {
  struct hunt *h = argument;
  h->flags = flags;
  if (advised != 0) fail(h, advised);
  note(h, start, end);
  pthread_mutex_lock(&h->mutex);
  h->filled_to = h->count;
  pthread_mutex_unlock(&h->mutex);
}

static void begin(struct hunt *h, struct target *target, int huge, int trap, int helpers) {
  static struct helper arguments[HELPERS];
  int tid = 0;
  memset(h, 0, sizeof *h);
  h->target = target;
  h->huge = huge;
  h->trap = trap;
  h->helpers = helpers;
  pthread_mutex_init(&h->mutex, NULL);
  maps_read(target->pid, &h->before);
  h->begin = seconds();
  if (!trap) pthread_create(&h->hunter, NULL, hunt, h);
  else if (cuda.restore_thread(target->pid, &tid) == 0) h->tracer = trap_start(target->pid, tid, caught, h);
  for (int i = 0; i < helpers; i++) {
    arguments[i] = (struct helper){h, i};
    pthread_create(&h->threads[i], NULL, help, &arguments[i]);
  }
}

void hunt_start(struct hunt *h, struct target *target, int huge, int helpers) { begin(h, target, huge, 0, helpers); }

void hunt_trap(struct hunt *h, struct target *target, int helpers) { begin(h, target, 1, 1, helpers); }

void hunt_stop(struct hunt *h) {
  atomic_store(&h->over, 1);
  if (!h->trap) pthread_join(h->hunter, NULL);
  if (h->tracer != NULL) trap_stop(h->tracer);
  for (int i = 0; i < h->helpers; i++) pthread_join(h->threads[i], NULL);
  if (!h->trap) look(h);
  maps_free(&h->before);
  maps_free(&h->now);
}

struct pages {
  size_t rss, huge;
};

static void add(const struct smaps *s, void *argument) {
  struct pages *pages = argument;
  pages->rss += s->rss;
  pages->huge += s->huge;
}

void hunt_pages(const struct hunt *h, size_t *rss, size_t *huge) {
  struct pages pages = {0};
  for (int i = 0; i < h->count; i++)
    smaps_visit(h->target->pid, h->areas[i].start, h->areas[i].end, add, &pages);
  *rss = pages.rss;
  *huge = pages.huge;
}
