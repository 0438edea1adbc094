/* Does NVML in the target stand in the way of a dump?
 *
 *   nvml KIND...      none, shutdown, keep, poll
 *
 * For each: what of /dev/nvidia* is open and mapped before and after the checkpoint, whether CRIU dumps and restores
 * the process, how its save area looks afterwards, and whether GPU data and NVML work again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "criu.h"
#include "harness.h"
#include "hunt.h"
#include "proc.h"

static void print_worker(const struct target *t) {
  const struct worker *w = &t->board->workers[0];
  if (w->name[0] == 0) return;
  printf("  polling: %lu answers RUNNING, %lu CHECKPOINTED, %lu in other phases; %lu errors",
         (unsigned long)w->passes[RUNNING], (unsigned long)w->passes[CHECKPOINTED],
         (unsigned long)(w->passes[LOCKING] + w->passes[LOCKED] + w->passes[CHECKPOINTING] + w->passes[RESTORING] +
                         w->passes[RESTORED] + w->passes[UNLOCKING]),
         (unsigned long)w->wrong);
  if (w->wrong > 0) printf(", the first %lu", w->first_wrong.found);
  printf("\n");
}

static void print_entry(const struct smaps *s, void *argument) {
  (void)argument;
  smaps_print(s, "      ");
}

static void print_areas(const struct target *t, const struct hunt *h, const char *when) {
  printf("  save area and decoy, %s:\n", when);
  for (int i = 0; i < h->count; i++) smaps_visit(t->pid, h->areas[i].start, h->areas[i].end, print_entry, NULL);
  smaps_visit(t->pid, t->board->decoy, t->board->decoy + t->board->decoy_length, print_entry, NULL);
}

static void through_criu(struct target *t, const struct hunt *h) {
  char directory[600];
  double dump, restore;
  snprintf(directory, sizeof directory, "%s.image", t->directory);
  print_areas(t, h, "CHECKPOINTED");
  int dumped = criu_dump(t, directory, &dump);
  printf("  criu dump: %s, %.2f s; target %s\n", dumped ? "ok" : "REFUSED", dump,
         target_lives(t) ? "alive" : target_end(t));
  if (dumped) {
    int restored = criu_restore(t, directory, &restore);
    printf("  criu restore: %s, %.2f s; driver says %s\n", restored ? "ok" : "FAILED", restore, state_name(t->pid));
    if (restored) print_areas(t, h, "after CRIU");
  }
  char command[700];
  snprintf(command, sizeof command, "rm -rf '%s'", directory);
  if (system(command) != 0) printf("  %s stays\n", directory);
}

static void one(const char *kind) {
  char options[200];
  struct target t;
  struct hunt h;
  struct outcome checkpoint, restore;
  snprintf(options, sizeof options, "gpu=256m decoy=96m%s%s", strcmp(kind, "none") == 0 ? "" : " nvml=",
           strcmp(kind, "none") == 0 ? "" : kind);
  printf("NVML in the target: %s\n", kind);
  if (!target_start(&t, options)) return;
  sleep_for(0.3);
  nvidia_print(t.pid, "RUNNING");
  hunt_start(&h, &t, 0, 0);
  int fine = suspend(&t, &checkpoint);
  hunt_stop(&h);
  sleep_for(0.35);
  if (fine) {
    nvidia_print(t.pid, "CHECKPOINTED");
    print_worker(&t);
    if (criu_there()) through_criu(&t, &h);
    else printf("  criu is not here\n");
    fine = target_lives(&t) && resume(&t, &restore);
    if (fine) {
      const char *answer = target_ask(&t, "verify 1", 20);
      printf("  driver restore %.3f s; GPU data: %s", restore.seconds, answer == NULL ? "no answer" : answer);
      answer = target_ask(&t, "nvml", 10);
      printf("; NVML: %s\n", answer == NULL ? "no answer" : answer);
      sleep_for(0.25);
      print_worker(&t);
    }
  }
  target_stop(&t);
}

int main(int argc, char **argv) {
  targets_outlive_us = 1;
  harness_start();
  for (int i = 1; i < argc; i++) one(argv[i]);
  return 0;
}
