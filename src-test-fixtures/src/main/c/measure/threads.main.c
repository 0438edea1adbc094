/* May the target's CPU threads go on while the process is checkpointed?
 *
 *   threads CYCLES KIND[,KIND] [die]
 *
 * Starts a target with threads of those kinds (see workers.h), brings it through lock, checkpoint, restore and unlock
 * that often while they work, and tells what they did in each phase and what hit them. A thread that faults waits until
 * the process runs again and tries again; with `die` the fault kills the process as it would without a handler. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "proc.h"

static const char *const phases[] = PHASE_NAMES;

struct range {
  uint64_t start, end;
  char name[24];
};

enum { RANGES = 512 };

static struct range ranges[RANGES];
static int range_count;

static void remember(uint64_t start, uint64_t end, const char *name) {
  if (range_count == RANGES) return;
  ranges[range_count] = (struct range){start, end, ""};
  snprintf(ranges[range_count++].name, sizeof ranges[0].name, "%.23s", name);
}

/* What is mapped while the process runs and might be taken away: device mappings, page-locked memory. */
static void remember_ranges(const struct target *t) {
  struct maps maps = {0};
  range_count = 0;
  maps_read(t->pid, &maps);
  for (size_t i = 0; i < maps.count; i++)
    if (is_nvidia(&maps.items[i])) remember(maps.items[i].start, maps.items[i].end, maps.items[i].name);
  maps_free(&maps);
  for (int i = 0; i < WORKERS; i++) {
    const struct worker *w = &t->board->workers[i];
    if (w->at != 0) remember(w->at, w->at + w->length, "page-locked");
  }
}

static const char *cover(const struct maps *maps, const struct range *r) {
  static char text[200];
  uint64_t at = r->start, hole = 0, barred = 0, same = 0, other = 0;
  for (size_t i = 0; i < maps->count; i++) {
    const struct mapping *m = &maps->items[i];
    if (m->end <= r->start || m->start >= r->end) continue;
    uint64_t from = m->start > at ? m->start : at, to = m->end < r->end ? m->end : r->end;
    if (from > at) hole += from - at;
    if (strncmp(m->perms, "---", 3) == 0) barred += to - from;
    else if (is_nvidia(m)) same += to - from;
    else other += to - from;
    at = to;
  }
  if (at < r->end) hole += r->end - at;
  snprintf(text, sizeof text, "%s%s%s%s", hole > 0 ? "hole " : "", barred > 0 ? "no-access " : "",
           same > 0 ? "device " : "", other > 0 ? "accessible " : "");
  return text;
}

static void print_ranges(const struct target *t, const char *when) {
  struct maps maps = {0};
  int shown = 0;
  maps_read(t->pid, &maps);
  printf("  maps of the page-locked memory, %s:\n", when);
  for (int i = 0; i < range_count; i++) {
    if (strcmp(ranges[i].name, "page-locked") != 0) continue;
    for (size_t k = 0; k < maps.count; k++)
      if (maps.items[k].end > ranges[i].start && maps.items[k].start < ranges[i].end) {
        printf("    %s\n", mapping_text(&maps.items[k]));
        shown++;
      }
  }
  if (shown == 0) printf("    nothing is mapped there\n");
  maps_free(&maps);
}

static void print_covers(const struct target *t) {
  struct maps maps = {0};
  struct {
    char text[256];
    int count;
    uint64_t bytes;
  } kinds[32] = {0};
  int count = 0;
  maps_read(t->pid, &maps);
  for (int i = 0; i < range_count; i++) {
    char text[256];
    int k = 0;
    snprintf(text, sizeof text, "%s: %s", ranges[i].name, cover(&maps, &ranges[i]));
    while (k < count && strcmp(kinds[k].text, text) != 0) k++;
    if (k == 32) continue;
    if (k == count) strcpy(kinds[count++].text, text);
    kinds[k].count++;
    kinds[k].bytes += ranges[i].end - ranges[i].start;
  }
  printf("  what lies at the addresses of device mappings and page-locked memory while CHECKPOINTED:\n");
  for (int k = 0; k < count; k++)
    printf("    %3d ranges, %10.3f MiB  %s\n", kinds[k].count, (double)kinds[k].bytes / 1048576, kinds[k].text);
  maps_free(&maps);
}

/* Mappings of the mapping thread that lie where something was before. */
static int squatters(const struct target *t, int print) {
  int found = 0;
  for (int s = 0; s < SLOTS; s++) {
    uint64_t at = atomic_load(&t->board->slots[s].at), length = atomic_load(&t->board->slots[s].length);
    for (int i = 0; i < range_count && length > 0; i++) {
      if (at + length <= ranges[i].start || at >= ranges[i].end) continue;
      if (found++ == 0 && print)
        printf("  a mapping of the target's own at %012lx-%012lx lies in %012lx-%012lx, before %s\n", at, at + length,
               ranges[i].start, ranges[i].end, ranges[i].name);
      break;
    }
  }
  return found;
}

static void print_worker(const struct worker *w) {
  uint64_t faults = 0;
  printf("  %-9s passes:", w->name);
  for (int p = 0; p < PHASES; p++) {
    printf(" %s %lu%s", phases[p], (unsigned long)atomic_load(&w->passes[p]), p == PHASES - 1 ? "\n" : ",");
    faults += atomic_load(&w->faults[p]);
  }
  printf("  %-9s faults: %lu", w->name, (unsigned long)faults);
  for (int p = 0; p < PHASES && faults > 0; p++)
    if (atomic_load(&w->faults[p]) > 0) printf(", %lu while %s", (unsigned long)atomic_load(&w->faults[p]), phases[p]);
  if (faults > 0)
    printf("; the first: SIG%s code %d (%s) at %lx on a %s while %s", w->first_fault.signal == 11 ? "SEGV" : "BUS",
           w->first_fault.code,
           w->first_fault.signal != 11  ? "?"
           : w->first_fault.code == 1   ? "not mapped"
           : w->first_fault.code == 2   ? "no permission"
                                        : "?",
           w->first_fault.address, w->first_fault.write ? "write" : "read", phases[w->first_fault.phase]);
  printf("; wrong words: %lu", (unsigned long)atomic_load(&w->wrong));
  if (atomic_load(&w->wrong) > 0)
    printf(" (the first at %lx while %s: expected %lx, found %lx)", w->first_wrong.address,
           phases[w->first_wrong.phase], w->first_wrong.expected, w->first_wrong.found);
  printf("%s%s\n", w->note[0] == 0 ? "" : "; ", w->note);
}

struct sums {
  double seconds[4], most[4];
  int count[4];
};

static int step(struct target *t, enum verb verb, struct sums *sums) {
  struct outcome o = act(t, verb, 10000);
  sums->seconds[verb] += o.seconds;
  if (o.seconds > sums->most[verb]) sums->most[verb] = o.seconds;
  sums->count[verb]++;
  if (o.result == 0 && target_lives(t)) return 1;
  sleep_for(0.3);
  printf("  %s answered %s after %.3f s; target %s; state %s\n", verb_names[verb], result_name(o.result), o.seconds,
         target_lives(t) ? "alive" : target_end(t), state_name(t->pid));
  return 0;
}

static int cycle(struct target *t, int number, struct sums *sums, int *found, int *left) {
  int first = number == 0;
  remember_ranges(t);
  if (first) print_ranges(t, "RUNNING");
  if (!step(t, LOCK, sums)) return 0;
  sleep_for(0.02);
  if (first) print_ranges(t, "LOCKED");
  if (!step(t, CHECKPOINT, sums)) return 0;
  sleep_for(0.1);
  if (first) print_ranges(t, "CHECKPOINTED");
  if (first) print_covers(t);
  *found += squatters(t, *found == 0);
  if (!step(t, RESTORE, sums)) return 0;
  sleep_for(0.02);
  if (first) print_ranges(t, "LOCKED again");
  *left += squatters(t, *left == 0);
  if (!step(t, UNLOCK, sums)) return 0;
  sleep_for(0.02);
  const char *quiet = target_ask(t, "quiet", 5);
  if (first || quiet == NULL || strstr(quiet, "WRONG") != NULL)
    printf("  cycle %d, untouched page-locked memory: %s\n", number + 1,
           quiet == NULL ? target_end(t) : quiet[0] == 0 ? "not tried" : quiet);
  return quiet != NULL;
}

int main(int argc, char **argv) {
  char options[256];
  struct target t;
  struct sums sums = {0};
  int cycles = argc < 3 ? 0 : atoi(argv[1]), done = 0, found = 0, left = 0;
  if (cycles == 0) {
    fprintf(stderr, "usage: threads CYCLES KIND[,KIND] [die]\n");
    return 2;
  }
  harness_start();
  snprintf(options, sizeof options, "gpu=64m %s threads=%s", argc > 3 ? "handler=0" : "quiet=1", argv[2]);
  printf("%s%s\n", argv[2], argc > 3 ? ", without a handler" : "");
  if (!target_start(&t, options)) return 1;
  sleep_for(0.2);
  while (done < cycles && cycle(&t, done, &sums, &found, &left)) done++;
  printf("  %d of %d cycles; target %s", done, cycles, target_lives(&t) ? "alive" : target_end(&t));
  for (int v = 0; v < 4; v++)
    if (sums.count[v] > 0)
      printf("; %s %.3f s on average, %.3f at most", verb_names[v], sums.seconds[v] / sums.count[v], sums.most[v]);
  printf("\n  its own mappings at former device or page-locked addresses: %d seen while CHECKPOINTED, %d after "
         "restore\n",
         found, left);
  const char *answer = target_lives(&t) && done == cycles ? target_ask(&t, "verify 1", 10) : NULL;
  printf("  GPU data: %s\n", answer == NULL ? "not asked" : answer);
  for (int i = 0; i < WORKERS; i++)
    if (t.board->workers[i].name[0] != 0) print_worker(&t.board->workers[i]);
  target_stop(&t);
  return 0;
}
