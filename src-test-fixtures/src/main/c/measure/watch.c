#include "watch.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "proc.h"

enum { EVENTS = 400, FOLLOWED = 8, STEPS = 400, TASKS = 64, TALLIES = 256 };

struct step {
  double at;
  struct frontier frontier;
};

struct followed {
  uint64_t start, end;
  double came, went; /* 0: was there before, is there still */
  struct step steps[STEPS];
  int count;
};

/* Samples of one thread in one system call, or at one place in the kernel. */
struct tally {
  int tid;
  char where[120];
  int samples;
};

struct watch {
  int pid;
  double period, begin;
  _Atomic int over;
  pthread_t mappings, threads;
  struct maps before, now;
  char events[EVENTS][260];
  int event_count, small, nvidia_gone;
  double nvidia_first, nvidia_last;
  struct followed followed[FOLLOWED];
  int followed_count;
  struct task tasks[TASKS], seen[TASKS]; /* at the start; the last that was seen of every thread */
  int task_count, seen_count, samples;
  struct tally calls[TALLIES], stacks[TALLIES];
  int call_count, stack_count;
};

static void event(struct watch *w, double at, const char *what, const struct mapping *m) {
  if (m->end - m->start < 1 << 20) {
    w->small++;
    return;
  }
  if (w->event_count < EVENTS)
    snprintf(w->events[w->event_count++], sizeof w->events[0], "%8.3f s  %-7s %s", at, what, mapping_text(m));
}

static void follow(struct watch *w, uint64_t start, uint64_t end, double at) {
  if (w->followed_count == FOLLOWED || end - start < 16 << 20) return;
  struct followed *f = &w->followed[w->followed_count++];
  f->start = start;
  f->end = end;
  f->came = at;
}

static void compare(struct watch *w, double at) {
  for (size_t i = 0; i < w->now.count; i++) {
    const struct mapping *m = &w->now.items[i], *old = maps_at(&w->before, m->start);
    int same = old != NULL && strcmp(old->name, m->name) == 0 && strcmp(old->perms, m->perms) == 0;
    if (same && old->end == m->end) continue;
    event(w, at, old == NULL ? "new" : same ? "resized" : "changed", m);
    if (is_plain(m) && (old == NULL || !is_plain(old))) follow(w, m->start, m->end, at);
    for (int f = 0; f < w->followed_count; f++)
      if (w->followed[f].start == m->start && w->followed[f].went == 0) w->followed[f].end = m->end;
  }
  for (size_t i = 0; i < w->before.count; i++) {
    const struct mapping *m = &w->before.items[i], *still = maps_at(&w->now, m->start);
    if (still != NULL) continue;
    if (is_nvidia(m)) {
      if (w->nvidia_gone++ == 0) w->nvidia_first = at;
      w->nvidia_last = at;
    } else {
      event(w, at, "gone", m);
    }
    for (int f = 0; f < w->followed_count; f++)
      if (w->followed[f].start == m->start && w->followed[f].went == 0) w->followed[f].went = at;
  }
}

static void *watch_mappings(void *argument) {
  struct watch *w = argument;
  while (!atomic_load(&w->over)) {
    double at = seconds() - w->begin;
    struct maps old = w->before;
    if (!maps_read(w->pid, &w->now)) break;
    compare(w, at);
    w->before = w->now;
    w->now = old;
    for (int i = 0; i < w->followed_count; i++) {
      struct followed *f = &w->followed[i];
      uint64_t stride = f->end - f->start > 256 << 20 ? 2 << 20 : 4096;
      if (f->went != 0 || f->count == STEPS) continue;
      f->steps[f->count].at = at;
      f->count += frontier_read(w->pid, f->start, f->end, stride, &f->steps[f->count].frontier);
    }
    sleep_for(w->period);
  }
  return NULL;
}

static void tally(struct tally *list, int *count, int tid, const char *where) {
  int i = 0;
  while (i < *count && (list[i].tid != tid || strcmp(list[i].where, where) != 0)) i++;
  if (i == TALLIES) return;
  if (i == *count) {
    list[i].tid = tid;
    snprintf(list[i].where, sizeof list[i].where, "%s", where);
    list[(*count)++].samples = 0;
  }
  list[i].samples++;
}

static int read_text(int pid, int tid, const char *name, char *text, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task/%d/%s", pid, tid, name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t n = read(fd, text, size - 1);
  close(fd);
  text[n < 0 ? 0 : n] = 0;
  return n > 0;
}

/* "ioctl fd 5 0xc020462a", "madvise 4" and the like; only the numbers that tell calls apart. */
static void describe_call(const char *text, char *where, size_t size) {
  long number;
  unsigned long a[3];
  if (sscanf(text, "%ld %lx %lx %lx", &number, &a[0], &a[1], &a[2]) < 4) {
    snprintf(where, size, "%.*s", (int)strcspn(text, " \n"), text);
    return;
  }
  if (number == 16) snprintf(where, size, "call 16 ioctl fd %lu request %lx", a[0], a[1]);
  else if (number == 28) snprintf(where, size, "call 28 madvise advice %lu", a[2]);
  else snprintf(where, size, "call %ld", number);
}

/* The four innermost functions. */
static void describe_stack(const char *text, char *where, size_t size) {
  where[0] = 0;
  for (int i = 0; i < 4 && *text != 0; i++) {
    const char *name = strstr(text, "] ");
    if (name == NULL) return;
    name += 2;
    size_t used = strlen(where);
    snprintf(where + used, size - used, "%s%.*s", i == 0 ? "" : " < ", (int)strcspn(name, "+\n"), name);
    text = name + strcspn(name, "\n");
  }
}

static void sample_thread(struct watch *w, int tid) {
  char text[2000], where[120];
  if (!read_text(w->pid, tid, "syscall", text, sizeof text)) return;
  describe_call(text, where, sizeof where);
  tally(w->calls, &w->call_count, tid, where);
  if (w->samples % 8 != 0 || !read_text(w->pid, tid, "stack", text, sizeof text)) return;
  describe_stack(text, where, sizeof where);
  if (where[0] != 0) tally(w->stacks, &w->stack_count, tid, where);
}

static const struct task *task_of(const struct task *tasks, int count, int tid) {
  for (int i = 0; i < count; i++)
    if (tasks[i].tid == tid) return &tasks[i];
  return NULL;
}

static void remember(struct watch *w, const struct task *now, int count) {
  for (int i = 0; i < count; i++) {
    struct task *known = (struct task *)task_of(w->seen, w->seen_count, now[i].tid);
    if (known == NULL && w->seen_count < TASKS) known = &w->seen[w->seen_count++];
    if (known != NULL) *known = now[i];
  }
}

static void *watch_threads(void *argument) {
  struct watch *w = argument;
  struct task now[TASKS];
  int count = 0;
  for (; !atomic_load(&w->over); w->samples++) {
    if (w->samples % 16 == 0) remember(w, now, count = tasks_read(w->pid, now, TASKS));
    for (int i = 0; i < count; i++) sample_thread(w, now[i].tid);
    sleep_for(0.001);
  }
  return NULL;
}

struct watch *watch_start(int pid, double period, uint64_t area) {
  struct watch *w = calloc(1, sizeof *w);
  w->pid = pid;
  w->period = period;
  w->begin = seconds();
  maps_read(pid, &w->before);
  const struct mapping *m = area == 0 ? NULL : maps_at(&w->before, area);
  if (m != NULL) follow(w, m->start, m->end, 0);
  w->task_count = tasks_read(pid, w->tasks, TASKS);
  remember(w, w->tasks, w->task_count);
  pthread_create(&w->mappings, NULL, watch_mappings, w);
  pthread_create(&w->threads, NULL, watch_threads, w);
  return w;
}

static void print_followed(const struct followed *f) {
  printf("    pages of %012lx-%012lx (%.1f MiB)%s:\n", f->start, f->end, (double)(f->end - f->start) / 1048576,
         f->went != 0 ? ", later gone" : "");
  for (int i = 0, last = -1000; i < f->count; i++) {
    const struct frontier *p = &f->steps[i].frontier;
    if (i - last < f->count / 10 && i != f->count - 1) continue;
    last = i;
    printf("    %8.3f s  %5zu of %zu looked at are present", f->steps[i].at, p->present, p->looked);
    if (p->present > 0)
      printf(", from %+.1f to %+.1f MiB, %s", (double)(p->first - f->start) / 1048576,
             (double)(p->last - f->start) / 1048576,
             p->from_start && p->to_end ? "all"
             : p->from_start            ? "a gapless beginning"
             : p->to_end                ? "a gapless end"
                                        : "with gaps");
    printf("\n");
  }
  if (f->went != 0) printf("    %8.3f s  gone\n", f->went);
}

static int by_samples(const void *a, const void *b) {
  return ((const struct tally *)b)->samples - ((const struct tally *)a)->samples;
}

static void print_tallies(const struct tally *list, int count, int tid, const char *what, int most) {
  int total = 0, shown = 0;
  for (int i = 0; i < count; i++)
    if (list[i].tid == tid) total += list[i].samples;
  for (int i = 0; i < count && shown < most; i++) {
    if (list[i].tid != tid) continue;
    printf("        %s %5.1f %% of %d: %s\n", what, 100.0 * list[i].samples / total, total, list[i].where);
    shown++;
  }
}

static void print_threads(struct watch *w) {
  struct task now[TASKS];
  int count = tasks_read(w->pid, now, TASKS);
  remember(w, now, count);
  qsort(w->calls, (size_t)w->call_count, sizeof w->calls[0], by_samples);
  qsort(w->stacks, (size_t)w->stack_count, sizeof w->stacks[0], by_samples);
  for (int i = 0; i < w->seen_count; i++) {
    const struct task *t = &w->seen[i], *old = task_of(w->tasks, w->task_count, t->tid);
    const struct task zero = {0}, *from = old == NULL ? &zero : old;
    int ended = task_of(now, count, t->tid) == NULL;
    if (t->ran - from->ran < 0.01 && old != NULL && !ended) continue;
    printf("    thread %d \"%s\"%s%s: ran %.2f s, user %.2f, system %.2f\n", t->tid, t->name,
           old == NULL ? " (new)" : "", ended ? " (has ended)" : "", t->ran - from->ran,
           t->user - from->user, t->system - from->system);
    print_tallies(w->calls, w->call_count, t->tid, "call ", 8);
    print_tallies(w->stacks, w->stack_count, t->tid, "stack", 5);
  }
}

void watch_stop(struct watch *w) {
  atomic_store(&w->over, 1);
  pthread_join(w->mappings, NULL);
  pthread_join(w->threads, NULL);
  if (maps_read(w->pid, &w->now)) compare(w, seconds() - w->begin);
  int shown = w->event_count < 40 ? w->event_count : 40;
  for (int i = 0; i < shown; i++) printf("    %s\n", w->events[i]);
  if (w->event_count > shown) printf("    ... and %d more such\n", w->event_count - shown);
  if (w->nvidia_gone > 0)
    printf("    %d mappings of /dev/nvidia* gone, the first by %.3f s, the last by %.3f s\n", w->nvidia_gone,
           w->nvidia_first, w->nvidia_last);
  if (w->small > 0) printf("    %d changes of mappings below 1 MiB\n", w->small);
  for (int i = 0; i < w->followed_count; i++) print_followed(&w->followed[i]);
  print_threads(w);
  maps_free(&w->before);
  maps_free(&w->now);
  free(w);
}
