/* Where the driver puts GPU memory: which mappings come and go during checkpoint and restore, how large they are beside
 * the GPU memory in use, in which order they fill, which thread works, and how they look afterwards.
 *
 *   area brief SIZES...    for each SIZES ("1g,512m", "none"): the new mappings and their sizes, in two lines
 *   area watch SIZES       the same once, watched all the time
 *   area trace SIZES       the system calls of the driver's thread
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "hunt.h"
#include "proc.h"
#include "trace.h"
#include "watch.h"

static size_t sum_of(const char *sizes) {
  size_t sum = 0;
  for (const char *p = sizes; p != NULL; p = strchr(p, ',') == NULL ? NULL : strchr(p, ',') + 1) sum += bytes_of(p);
  return sum;
}

static int start(struct target *t, const char *sizes) {
  char options[400];
  int none = strcmp(sizes, "none") == 0;
  snprintf(options, sizeof options, "decoy=96m idle=1%s%s", none ? "" : " gpu=", none ? "" : sizes);
  return target_start(t, options);
}

/* Every large mapping that was not there before, or whose size or rights have changed. */
static void print_new(int pid, const struct maps *before) {
  struct maps now = {0};
  int small = 0;
  uint64_t small_bytes = 0;
  maps_read(pid, &now);
  for (size_t i = 0; i < now.count; i++) {
    const struct mapping *m = &now.items[i], *old = maps_at(before, m->start);
    if (old != NULL && old->end == m->end && strcmp(old->perms, m->perms) == 0) continue;
    if (m->end - m->start < 256 << 10) {
      small++;
      small_bytes += m->end - m->start;
      continue;
    }
    struct smaps s;
    if (!smaps_of(pid, m->start, &s)) continue;
    smaps_print(&s, old == NULL ? "    new     " : "    changed ");
  }
  printf("    and %d smaller new or changed mappings, %.0f KiB together\n", small, (double)small_bytes / 1024);
  maps_free(&now);
}

static void brief(const char *sizes) {
  struct target t;
  struct maps before = {0};
  struct outcome checkpoint, restore;
  struct hunt h;
  double begin = seconds();
  if (!start(&t, sizes)) return;
  double started = seconds() - begin;
  long long used_before = gpu_used_by(t.pid), all_before = gpu_used();
  maps_read(t.pid, &before);
  hunt_start(&h, &t, 0, 0);
  int fine = suspend(&t, &checkpoint);
  hunt_stop(&h);
  if (fine) {
    size_t asked = strcmp(sizes, "none") == 0 ? 0 : sum_of(sizes);
    printf("%s: %zu bytes allocated; NVML says %lld of the process, card %lld; start %.2f s; checkpoint %.3f s\n",
           sizes, asked, used_before, all_before - gpu_used(), started, checkpoint.seconds);
    printf("    new plain memory %zu bytes in %d: allocated %+lld, NVML's %+lld (%+.1f MiB)\n", h.bytes, h.count,
           (long long)h.bytes - (long long)asked, (long long)h.bytes - used_before,
           (double)((long long)h.bytes - used_before) / 1048576);
    print_new(t.pid, &before);
    fine = resume(&t, &restore);
    if (fine) printf("    restore %.3f s; ", restore.seconds);
    const char *answer = fine ? target_ask(&t, "verify 1", 60) : NULL;
    printf("GPU data: %s; NVML then says %lld\n", answer == NULL ? "not asked" : answer, gpu_used_by(t.pid));
  }
  maps_free(&before);
  target_stop(&t);
}

static void print_all(const struct smaps *s, void *argument) {
  const struct board *board = argument;
  int decoy = s->mapping.start <= board->decoy && board->decoy < s->mapping.end;
  const char *what = decoy ? "    decoy   " : "            ";
  if (s->mapping.end - s->mapping.start >= 1 << 20 && s->mapping.inode == 0) smaps_print(s, (void *)what);
}

/* The mapping and its neighbours. */
static void print_around(int pid, uint64_t start) {
  struct maps maps = {0};
  maps_read(pid, &maps);
  const struct mapping *m = maps_at(&maps, start);
  for (size_t i = 0; m != NULL && i < maps.count; i++)
    if (&maps.items[i] >= m - 3 && &maps.items[i] <= m + 3)
      printf("    %s %s\n", &maps.items[i] == m ? ">" : " ", mapping_text(&maps.items[i]));
  maps_free(&maps);
}

static void print_tasks(const struct target *t, const char *when) {
  struct task tasks[64];
  int count = tasks_read(t->pid, tasks, 64), restore = 0;
  int result = cuda.restore_thread == NULL ? -1 : cuda.restore_thread(t->pid, &restore);
  printf("  threads, %s:", when);
  for (int i = 0; i < count; i++)
    printf(" %d \"%s\"%s", tasks[i].tid, tasks[i].name, tasks[i].tid == restore ? " (restore thread)" : "");
  printf("; restore thread id %d (%s)\n", restore, result_name(result));
}

static void watched(const char *sizes) {
  struct target t;
  struct hunt h;
  if (!start(&t, sizes)) return;
  print_tasks(&t, "RUNNING");
  nvidia_print(t.pid, "RUNNING");
  struct outcome o = act(&t, LOCK, 10000);
  printf("  lock %s %.4f s\n", result_name(o.result), o.seconds);
  nvidia_print(t.pid, "LOCKED");
  printf("  checkpoint:\n");
  hunt_start(&h, &t, 0, 0);
  struct watch *w = watch_start(t.pid, 0.02, 0);
  o = act(&t, CHECKPOINT, 0);
  hunt_stop(&h);
  watch_stop(w);
  printf("    answered %s after %.3f s\n", result_name(o.result), o.seconds);
  for (int i = 0; i < h.count; i++)
    printf("    new plain memory %012lx-%012lx, %lu bytes, first seen %.3f s after the call\n", h.areas[i].start,
           h.areas[i].end, h.areas[i].end - h.areas[i].start, h.areas[i].seen);
  print_tasks(&t, "CHECKPOINTED");
  nvidia_print(t.pid, "CHECKPOINTED");
  printf("  anonymous mappings of 1 MiB and more while CHECKPOINTED (smaps):\n");
  smaps_visit(t.pid, 0, (uint64_t)-1, print_all, t.board);
  for (int i = 0; i < h.count; i++) {
    printf("  around %012lx:\n", h.areas[i].start);
    print_around(t.pid, h.areas[i].start);
  }
  if (o.result == 0) {
    printf("  restore:\n");
    w = watch_start(t.pid, 0.02, h.count > 0 ? h.areas[0].start : 0);
    o = act(&t, RESTORE, 0);
    watch_stop(w);
    printf("    answered %s after %.3f s\n", result_name(o.result), o.seconds);
    o = act(&t, UNLOCK, 0);
    const char *answer = target_ask(&t, "verify 1", 60);
    printf("  unlock %s; GPU data: %s\n", result_name(o.result), answer == NULL ? "no answer" : answer);
    print_tasks(&t, "RUNNING again");
  }
  target_stop(&t);
}

static struct outcome traced_verb(struct target *t, enum verb verb) {
  int tid = 0;
  cuda.restore_thread(t->pid, &tid);
  printf("  %s:\n", verb_names[verb]);
  struct trace *trace = trace_start(t->pid, tid);
  struct outcome o = act(t, verb, 10000);
  trace_stop(trace);
  printf("    answered %s after %.3f s\n", result_name(o.result), o.seconds);
  return o;
}

static void traced(const char *sizes) {
  struct target t;
  if (!start(&t, sizes)) return;
  for (int v = LOCK; v <= UNLOCK; v++)
    if (traced_verb(&t, v).result != 0) break;
  const char *answer = target_lives(&t) ? target_ask(&t, "verify 1", 60) : target_end(&t);
  printf("  GPU data: %s\n", answer == NULL ? "no answer" : answer);
  target_stop(&t);
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: area brief SIZES... | area watch SIZES | area trace SIZES\n");
    return 2;
  }
  harness_start();
  for (int i = 2; i < argc; i++) {
    if (strcmp(argv[1], "brief") == 0) brief(argv[i]);
    if (strcmp(argv[1], "watch") == 0) watched(argv[i]);
    if (strcmp(argv[1], "trace") == 0) traced(argv[i]);
  }
  return 0;
}
