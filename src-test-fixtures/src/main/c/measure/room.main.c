/* Two suspended processes, and room on the GPU for one and a half: what do two restores at once answer, and what
 * becomes of the one that lost?
 *
 *   room SIZE ROUNDS [one-after-the-other]
 *   room exact SIZE MIB...    one process, and so much more room (or less) than its suspension had made: is it enough?
 *
 * The room is taken by another process, which allocates and writes nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "hunt.h"

struct race {
  _Atomic int ready, go;
  struct outcome outcomes[2];
};

static void restore_both(struct target *jobs, struct race *race, int in_turn) {
  pid_t children[2];
  fflush(stdout);
  for (int i = 0; i < 2; i++) {
    race->outcomes[i].result = -1;
    children[i] = fork();
    if (children[i] == 0) {
      alarm(30);
      atomic_fetch_add(&race->ready, 1);
      while (!atomic_load(&race->go)) continue;
      double begin = seconds();
      int result = cuda.restore(jobs[i].pid, NULL);
      race->outcomes[i] = (struct outcome){result, seconds() - begin};
      _exit(0);
    }
    if (in_turn) {
      atomic_store(&race->go, 1);
      waitpid(children[i], NULL, 0);
    }
  }
  while (!in_turn && atomic_load(&race->ready) < 2) sleep_for(0.0001);
  atomic_store(&race->go, 1);
  for (int i = 0; i < 2 && !in_turn; i++) waitpid(children[i], NULL, 0);
}

static void try_again(struct target *job, const char *when) {
  struct outcome o = act(job, RESTORE, 0);
  printf("    %s: restore again answers %s after %.3f s; GPU free %.1f GiB; state %s\n", when, result_name(o.result),
         o.seconds, (double)gpu_free() / (1 << 30), state_name(job->pid));
}

static void bury(struct target *job) {
  for (int v = LOCK; v <= UNLOCK; v++)
    if (v != RESTORE) {
      struct outcome o = act(job, v, 100);
      printf("    and %s answers %s;", verb_names[v], result_name(o.result));
    }
  printf(" process %s\n", target_lives(job) ? "alive" : target_end(job));
}

static void one_round(const char *size, int number, int in_turn) {
  struct target jobs[2], filler;
  struct race *race = mmap(NULL, sizeof *race, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  char options[64];
  struct outcome checkpoint;
  size_t bytes = bytes_of(size);
  snprintf(options, sizeof options, "gpu=%s", size);
  int up = 0;
  while (up < 2 && target_start(&jobs[up], options) && suspend(&jobs[up], &checkpoint)) up++;
  long long room = gpu_free(), left = (long long)(bytes + bytes / 2) + (1 << 30);
  snprintf(options, sizeof options, "empty=%lld", room - left);
  if (up == 2 && target_start(&filler, options)) {
    printf("  round %d: %.2f GiB free, two jobs of %s are restored %s\n", number, (double)gpu_free() / (1 << 30), size,
           in_turn ? "one after the other" : "at once");
    restore_both(jobs, race, in_turn);
    for (int i = 0; i < 2; i++)
      printf("    job %d: %s after %.3f s; state %s\n", i + 1, result_name(race->outcomes[i].result),
             race->outcomes[i].seconds, state_name(jobs[i].pid));
    for (int i = 0; i < 2; i++)
      if (race->outcomes[i].result != 0) try_again(&jobs[i], "while there is still no room");
    target_stop(&filler);
    sleep_for(0.3);
    for (int i = 0; i < 2; i++) {
      if (race->outcomes[i].result != 0) {
        try_again(&jobs[i], "with room");
        sleep_for(0.5);
        try_again(&jobs[i], "0.5 s later");
      }
      if (strcmp(state_name(jobs[i].pid), "LOCKED") == 0) {
        act(&jobs[i], UNLOCK, 0);
        const char *answer = target_ask(&jobs[i], "verify 1", 20);
        printf("    job %d: GPU data: %s\n", i + 1, answer == NULL ? "no answer" : answer);
      } else {
        bury(&jobs[i]);
      }
    }
  }
  for (int i = 0; i < up; i++) target_stop(&jobs[i]);
  munmap(race, sizeof *race);
}

static void exact(const char *size, long long more) {
  struct target job, filler;
  struct hunt h;
  struct outcome checkpoint;
  char options[64];
  snprintf(options, sizeof options, "gpu=%s", size);
  if (!target_start(&job, options)) return;
  long long before = gpu_used(), listed = gpu_used_by(job.pid);
  hunt_start(&h, &job, 0, 0);
  int fine = suspend(&job, &checkpoint);
  hunt_stop(&h);
  long long need = before - gpu_used();
  if (fine && target_start(&filler, "idle=0")) {
    long long surplus = gpu_free() - need - more * 1048576;
    snprintf(options, sizeof options, "empty %lld", surplus / 2097152 * 2097152);
    if (surplus > 0) target_ask(&filler, options, 20);
    long long free = gpu_free();
    struct outcome o = act(&job, RESTORE, 0);
    printf("  save area %zu bytes, card freed %lld, NVML said %lld; free %lld, that is freed %+.1f MiB: restore %s "
           "after %.3f s",
           h.bytes, need, listed, free, (double)(free - need) / 1048576, result_name(o.result), o.seconds);
    printf("; free then %.1f MiB\n", (double)gpu_free() / 1048576);
    target_stop(&filler);
  }
  target_stop(&job);
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: room SIZE ROUNDS [one-after-the-other] | room exact SIZE MIB...\n");
    return 2;
  }
  harness_start();
  if (strcmp(argv[1], "exact") == 0) {
    for (int i = 3; i < argc; i++) exact(argv[2], atoll(argv[i]));
    return 0;
  }
  for (int i = 0; i < atoi(argv[2]); i++) one_round(argv[1], i + 1, argc > 3);
  return 0;
}
