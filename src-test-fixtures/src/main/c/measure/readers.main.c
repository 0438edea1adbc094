/* What happens when several call the driver on one process at once?
 *
 *   readers state SIZE     GetState all the time, by other processes and by another thread of the caller, during each
 *                          verb: how long it takes, what it says, what it costs
 *   readers blocked SIZE   GetState, another lock and an unlock during a lock that waits for a kernel
 *   readers killed SIZE    the caller is killed in the middle of a checkpoint, and of a restore
 *   readers twice ROUNDS   the same verb by two processes at once
 *   readers middle SIZE    other verbs while a checkpoint and a restore are under way
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

enum { SAMPLES = 20000, CALLERS = 4 };

struct sample {
  int phase_before, phase_after, result, state;
  double took;
};

struct reader {
  _Atomic int go, over, ready;
  int pid;
  const struct board *board;
  int count;
  struct sample samples[SAMPLES];
};

static const char *const phases[] = PHASE_NAMES;

static void *shared(size_t size) {
  return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void *read_states(void *argument) {
  struct reader *r = argument;
  while (!atomic_load(&r->over) && r->count < SAMPLES) {
    struct sample *s = &r->samples[r->count];
    CUprocessState state = 99;
    s->phase_before = atomic_load(&r->board->phase);
    double begin = seconds();
    s->result = cuda.get_state(r->pid, &state);
    s->took = seconds() - begin;
    s->state = (int)state;
    s->phase_after = atomic_load(&r->board->phase);
    r->count++;
    sleep_for(0.002);
  }
  return NULL;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void print_reader(const struct reader *r, const char *who) {
  static double took[SAMPLES];
  for (int p = 0; p < PHASES; p++) {
    int count = 0, states[8] = {0}, errors = 0, error = 0, late = 0;
    for (int i = 0; i < r->count; i++) {
      const struct sample *s = &r->samples[i];
      if (s->phase_before != p) continue;
      took[count++] = s->took;
      late += s->phase_after != p;
      if (s->result == 0 && s->state >= 0 && s->state < 8) states[s->state]++;
      else {
        errors++;
        error = s->result;
      }
    }
    if (count == 0) continue;
    qsort(took, (size_t)count, sizeof took[0], by_value);
    printf("    %s, asked while %-13s: %5d calls, median %8.3f ms, longest %9.3f ms; answers", who, phases[p], count,
           took[count / 2] * 1e3, took[count - 1] * 1e3);
    for (int s = 0; s < 8; s++)
      if (states[s] > 0) printf(" state %d x %d", s, states[s]);
    if (errors > 0) printf(" error %s x %d", result_name(error), errors);
    if (late > 0) printf("; %d answered in a later phase", late);
    printf("\n");
  }
}

static pid_t fork_reader(struct reader *r) {
  fflush(stdout);
  pid_t child = fork();
  if (child != 0) return child;
  read_states(r);
  _exit(0);
}

static void cycle(struct target *t, const char *who, int quiet) {
  printf("  %s:", who);
  for (int v = LOCK; v <= UNLOCK; v++) {
    struct outcome o = act(t, v, 10000);
    printf(" %s %s %.3f s%s", verb_names[v], result_name(o.result), o.seconds, v == UNLOCK ? "\n" : ",");
    if (o.result != 0) break;
    if (!quiet) sleep_for(0.05);
  }
}

/* One cycle with so many reading processes, or with a reading thread. */
static void with_readers(struct target *t, int processes, int thread) {
  struct reader *readers[CALLERS + 1];
  pid_t children[CALLERS];
  pthread_t reading;
  char who[64];
  snprintf(who, sizeof who, "%d reading processes%s", processes, thread ? ", and a reading thread of the caller" : "");
  for (int i = 0; i < processes + thread; i++) {
    readers[i] = shared(sizeof **readers);
    readers[i]->pid = t->pid;
    readers[i]->board = t->board;
  }
  for (int i = 0; i < processes; i++) children[i] = fork_reader(readers[i]);
  if (thread) pthread_create(&reading, NULL, read_states, readers[processes]);
  sleep_for(0.05);
  cycle(t, who, 0);
  sleep_for(0.02);
  for (int i = 0; i < processes + thread; i++) atomic_store(&readers[i]->over, 1);
  for (int i = 0; i < processes; i++) waitpid(children[i], NULL, 0);
  if (thread) pthread_join(reading, NULL);
  if (processes > 0) print_reader(readers[0], "process");
  if (thread) print_reader(readers[processes], "thread ");
  for (int i = 0; i < processes + thread; i++) munmap(readers[i], sizeof **readers);
}

struct locker {
  struct target *target;
  unsigned timeout;
  double began, ended;
  int result;
};

static void *lock_thread(void *argument) {
  struct locker *l = argument;
  CUcheckpointLockArgs arguments = {.timeoutMs = l->timeout};
  l->began = seconds();
  l->result = cuda.lock(l->target->pid, &arguments);
  l->ended = seconds();
  return NULL;
}

/* A lock that waits for a kernel; during that, readers, another lock with a timeout, and an unlock. */
static void blocked_lock(struct target *t) {
  struct reader *r = shared(sizeof *r);
  struct locker first = {t, 0, 0, 0, 0}, second = {t, 300, 0, 0, 0};
  pthread_t threads[2];
  r->pid = t->pid;
  r->board = t->board;
  printf("  a lock without timeout waits for a kernel of 2 s; after 0.3 s another lock with 300 ms, after 1 s an "
         "unlock:\n");
  if (target_ask(t, "spin 2000", 20) == NULL) {
    printf("    the target does not answer\n");
    return;
  }
  atomic_store(&t->board->phase, LOCKING);
  double begin = seconds();
  pthread_create(&threads[0], NULL, lock_thread, &first);
  pid_t child = fork_reader(r);
  sleep_for(0.3);
  pthread_create(&threads[1], NULL, lock_thread, &second);
  sleep_for(0.7);
  double asked = seconds();
  int unlocked = cuda.unlock(t->pid, NULL);
  double answered = seconds();
  pthread_join(threads[1], NULL);
  pthread_join(threads[0], NULL);
  atomic_store(&t->board->phase, LOCKED);
  sleep_for(0.02);
  atomic_store(&r->over, 1);
  waitpid(child, NULL, 0);
  printf("    first lock %s at %.3f s; second lock %s, asked at %.3f s, answered at %.3f s; unlock %s, asked at "
         "%.3f s, answered at %.3f s; state then %s\n",
         result_name(first.result), first.ended - begin, result_name(second.result), second.began - begin,
         second.ended - begin, result_name(unlocked), asked - begin, answered - begin, state_name(t->pid));
  print_reader(r, "process");
  munmap(r, sizeof *r);
  act(t, UNLOCK, 0);
}

static void state(const char *size) {
  struct target t;
  char options[64];
  snprintf(options, sizeof options, "gpu=%s", size);
  if (!target_start(&t, options)) return;
  cycle(&t, "warm-up, no readers", 1);
  cycle(&t, "no readers", 1);
  with_readers(&t, 1, 0);
  with_readers(&t, 4, 0);
  with_readers(&t, 0, 1);
  const char *answer = target_ask(&t, "verify 1", 30);
  printf("  GPU data: %s\n", answer == NULL ? "no answer" : answer);
  target_stop(&t);
}

static void blocked(const char *size) {
  struct target t;
  char options[64];
  snprintf(options, sizeof options, "gpu=%s", size);
  if (!target_start(&t, options)) return;
  target_ask(&t, "spin 1", 20); /* the first launch takes longer */
  blocked_lock(&t);
  printf("  state at the end %s\n", state_name(t.pid));
  target_stop(&t);
}

/* A process of its own calls the verb and is killed; then this one asks for the state. */
static void kill_in(struct target *t, enum verb verb, double after) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    if (verb == CHECKPOINT) cuda.checkpoint(t->pid, NULL);
    else cuda.restore(t->pid, NULL);
    _exit(0);
  }
  sleep_for(after);
  int status = 0, early = waitpid(child, &status, WNOHANG) == child;
  if (!early) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  double begin = seconds();
  const char *first = state_name(t->pid);
  double took = seconds() - begin;
  sleep_for(1);
  printf("  the caller of %s %s after %.2f s; the state asked then: %s after %.3f s; 1 s later %s; target %s\n",
         verb_names[verb], early ? "had ended" : "was killed", after, first, took, state_name(t->pid),
         target_lives(t) ? "alive" : target_end(t));
}

static void killed(const char *size) {
  struct target t;
  char options[64];
  snprintf(options, sizeof options, "gpu=%s", size);
  if (!target_start(&t, options)) return;
  act(&t, LOCK, 1000);
  kill_in(&t, CHECKPOINT, 0.3);
  if (strcmp(state_name(t.pid), "LOCKED") == 0) {
    struct outcome o = act(&t, CHECKPOINT, 0);
    printf("  checkpoint again: %s after %.3f s\n", result_name(o.result), o.seconds);
  }
  kill_in(&t, RESTORE, 0.15);
  if (strcmp(state_name(t.pid), "CHECKPOINTED") == 0) {
    struct outcome o = act(&t, RESTORE, 0);
    printf("  restore again: %s after %.3f s\n", result_name(o.result), o.seconds);
  }
  struct outcome o = act(&t, UNLOCK, 0);
  const char *answer = target_lives(&t) && o.result == 0 ? target_ask(&t, "verify 1", 20) : NULL;
  printf("  unlock %s; GPU data: %s\n", result_name(o.result), answer == NULL ? "not asked" : answer);
  target_stop(&t);
}

struct pair {
  _Atomic int ready, go;
  struct outcome outcomes[2];
};

/* Two processes call the verb at the same moment; the second child is killed if it hangs. */
static void together(int pid, enum verb verb, struct pair *pair) {
  pid_t children[2];
  atomic_store(&pair->ready, 0);
  atomic_store(&pair->go, 0);
  fflush(stdout);
  for (int i = 0; i < 2; i++) {
    pair->outcomes[i].result = -1;
    children[i] = fork();
    if (children[i] != 0) continue;
    CUcheckpointLockArgs lock = {.timeoutMs = 5000};
    alarm(15);
    atomic_fetch_add(&pair->ready, 1);
    while (!atomic_load(&pair->go)) continue;
    double begin = seconds();
    int result = verb == LOCK         ? cuda.lock(pid, &lock)
                 : verb == CHECKPOINT ? cuda.checkpoint(pid, NULL)
                 : verb == RESTORE    ? cuda.restore(pid, NULL)
                                      : cuda.unlock(pid, NULL);
    pair->outcomes[i] = (struct outcome){result, seconds() - begin};
    _exit(0);
  }
  while (atomic_load(&pair->ready) < 2) sleep_for(0.0001);
  atomic_store(&pair->go, 1);
  for (int i = 0; i < 2; i++) waitpid(children[i], NULL, 0);
}

static void twice(int rounds) {
  struct target t;
  struct pair *pair = shared(sizeof *pair);
  if (!target_start(&t, "gpu=64m")) return;
  for (int round = 0; round < rounds; round++) {
    printf("  round %d:", round + 1);
    for (int v = LOCK; v <= UNLOCK; v++) {
      together(t.pid, v, pair);
      printf(" %s", verb_names[v]);
      for (int i = 0; i < 2; i++)
        if (pair->outcomes[i].result == -1) printf(" %s no answer in 15 s", i == 0 ? "" : "and");
        else
          printf(" %s %s after %.1f ms", i == 0 ? "" : "and", result_name(pair->outcomes[i].result),
                 pair->outcomes[i].seconds * 1e3);
      printf(" -> %s;", state_name(t.pid));
    }
    printf("\n");
    if (strcmp(state_name(t.pid), "RUNNING") != 0) break;
  }
  const char *answer = target_lives(&t) ? target_ask(&t, "verify 1", 10) : target_end(&t);
  printf("  GPU data: %s\n", answer == NULL ? "no answer" : answer);
  target_stop(&t);
}

struct verb_call {
  struct target *target;
  enum verb verb;
  struct outcome outcome;
};

static void *call_verb(void *argument) {
  struct verb_call *c = argument;
  c->outcome = act(c->target, c->verb, 0);
  return NULL;
}

/* Starts the verb, and every 80 ms another process calls the next of lock (50 ms), unlock, checkpoint, restore. */
static void meddle(struct target *t, enum verb verb) {
  struct pair *pair = shared(CALLERS * sizeof *pair);
  struct verb_call call = {t, verb, {0, 0}};
  pthread_t thread;
  pid_t children[CALLERS];
  pthread_create(&thread, NULL, call_verb, &call);
  double begin = seconds();
  fflush(stdout);
  for (int v = LOCK; v <= UNLOCK; v++) {
    sleep_for(0.08);
    pair[v].outcomes[0] = (struct outcome){-1, seconds() - begin};
    children[v] = fork();
    if (children[v] != 0) continue;
    CUcheckpointLockArgs lock = {.timeoutMs = 50};
    alarm(20);
    double asked = seconds();
    int result = v == LOCK         ? cuda.lock(t->pid, &lock)
                 : v == CHECKPOINT ? cuda.checkpoint(t->pid, NULL)
                 : v == RESTORE    ? cuda.restore(t->pid, NULL)
                                   : cuda.unlock(t->pid, NULL);
    pair[v].outcomes[0].result = result;
    pair[v].outcomes[1].seconds = seconds() - asked;
    _exit(0);
  }
  pthread_join(thread, NULL);
  for (int v = LOCK; v <= UNLOCK; v++) waitpid(children[v], NULL, 0);
  printf("  %s answered %s after %.3f s; during that", verb_names[verb], result_name(call.outcome.result),
         call.outcome.seconds);
  for (int v = LOCK; v <= UNLOCK; v++)
    printf(" %s at %.2f s: %s after %.3f s;", verb_names[v], pair[v].outcomes[0].seconds,
           pair[v].outcomes[0].result == -1 ? "no answer" : result_name(pair[v].outcomes[0].result),
           pair[v].outcomes[1].seconds);
  printf(" state then %s\n", state_name(t->pid));
  munmap(pair, CALLERS * sizeof *pair);
}

static void middle(const char *size) {
  struct target t;
  char options[64];
  snprintf(options, sizeof options, "gpu=%s", size);
  if (!target_start(&t, options)) return;
  act(&t, LOCK, 1000);
  meddle(&t, CHECKPOINT);
  if (strcmp(state_name(t.pid), "CHECKPOINTED") == 0) meddle(&t, RESTORE);
  if (strcmp(state_name(t.pid), "CHECKPOINTED") == 0) act(&t, RESTORE, 0);
  if (strcmp(state_name(t.pid), "LOCKED") == 0) act(&t, UNLOCK, 0);
  const char *answer = target_lives(&t) ? target_ask(&t, "verify 1", 10) : target_end(&t);
  printf("  state at the end %s; GPU data: %s\n", state_name(t.pid), answer == NULL ? "no answer" : answer);
  target_stop(&t);
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: readers state SIZE | blocked SIZE | killed SIZE | twice ROUNDS | middle SIZE\n");
    return 2;
  }
  harness_start();
  if (strcmp(argv[1], "state") == 0) state(argv[2]);
  if (strcmp(argv[1], "blocked") == 0) blocked(argv[2]);
  if (strcmp(argv[1], "killed") == 0) killed(argv[2]);
  if (strcmp(argv[1], "twice") == 0) twice(atoi(argv[2]));
  if (strcmp(argv[1], "middle") == 0) middle(argv[2]);
  return 0;
}
