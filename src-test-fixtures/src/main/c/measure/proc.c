#include "proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int parse(const char *line, struct mapping *m) {
  int at = 0;
  if (sscanf(line, "%lx-%lx %4s %*s %*s %lu %n", &m->start, &m->end, m->perms, &m->inode, &at) < 4) return 0;
  snprintf(m->name, sizeof m->name, "%s", at > 0 ? line + at : "");
  m->name[strcspn(m->name, "\n")] = 0;
  return 1;
}

int maps_read(int pid, struct maps *maps) {
  char path[64], line[600];
  snprintf(path, sizeof path, "/proc/%d/maps", pid);
  FILE *file = fopen(path, "r");
  maps->count = 0;
  if (file == NULL) return 0;
  while (fgets(line, sizeof line, file) != NULL) {
    if (maps->count == maps->room) {
      maps->room = maps->room == 0 ? 1024 : 2 * maps->room;
      maps->items = realloc(maps->items, maps->room * sizeof *maps->items);
    }
    if (parse(line, &maps->items[maps->count])) maps->count++;
  }
  fclose(file);
  return maps->count > 0;
}

void maps_free(struct maps *maps) {
  free(maps->items);
  memset(maps, 0, sizeof *maps);
}

const struct mapping *maps_at(const struct maps *maps, uint64_t start) {
  size_t low = 0, high = maps->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (maps->items[middle].start < start) low = middle + 1;
    else high = middle;
  }
  return low < maps->count && maps->items[low].start == start ? &maps->items[low] : NULL;
}

int is_nvidia(const struct mapping *m) { return strstr(m->name, "/dev/nvidia") != NULL; }

int is_plain(const struct mapping *m) { return strcmp(m->perms, "rw-p") == 0 && m->inode == 0 && m->name[0] == 0; }

const char *mapping_text(const struct mapping *m) {
  static _Thread_local char text[4][240];
  static _Thread_local int next;
  char *out = text[next++ % 4];
  uint64_t size = m->end - m->start;
  snprintf(out, 240, "%012lx-%012lx %s %10.3f MiB %s", m->start, m->end, m->perms, (double)size / 1048576, m->name);
  return out;
}

void smaps_visit(int pid, uint64_t start, uint64_t end, void (*visit)(const struct smaps *, void *), void *argument) {
  char path[64], line[600];
  struct smaps s = {0};
  struct mapping m;
  int wanted = 0;
  snprintf(path, sizeof path, "/proc/%d/smaps", pid);
  FILE *file = fopen(path, "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (strchr(line, '-') != NULL && parse(line, &m)) {
      memset(&s, 0, sizeof s);
      s.mapping = m;
      wanted = m.end > start && m.start < end;
      continue;
    }
    if (!wanted) continue;
    sscanf(line, "Rss: %zu", &s.rss);
    sscanf(line, "Anonymous: %zu", &s.anonymous);
    sscanf(line, "Private_Dirty: %zu", &s.private_dirty);
    sscanf(line, "Private_Clean: %zu", &s.private_clean);
    sscanf(line, "AnonHugePages: %zu", &s.huge);
    sscanf(line, "Locked: %zu", &s.locked);
    if (strncmp(line, "VmFlags:", 8) == 0) {
      snprintf(s.flags, sizeof s.flags, "%.159s", line + 9);
      s.flags[strcspn(s.flags, "\n")] = 0;
      visit(&s, argument);
    }
  }
  if (file != NULL) fclose(file);
}

void smaps_print(const struct smaps *s, void *indent) {
  printf("%s%s rss %zu anon %zu huge %zu clean %zu KiB; %s\n", (const char *)indent, mapping_text(&s->mapping), s->rss,
         s->anonymous, s->huge, s->private_clean, s->flags);
}

struct wanted {
  uint64_t start;
  struct smaps *found;
};

static void keep(const struct smaps *s, void *argument) {
  struct wanted *wanted = argument;
  if (s->mapping.start == wanted->start) *wanted->found = *s;
}

int smaps_of(int pid, uint64_t start, struct smaps *found) {
  memset(found, 0, sizeof *found);
  struct wanted wanted = {start, found};
  smaps_visit(pid, start, start + 1, keep, &wanted);
  return found->mapping.start == start;
}

static int look(int fd, uint64_t at, struct frontier *f) {
  uint64_t entry;
  if (pread(fd, &entry, 8, (off_t)(at / 4096 * 8)) != 8) return 0;
  f->looked++;
  if (entry >> 63 != 0) {
    if (f->present++ == 0) f->first = at;
    f->last = at;
  }
  return 1;
}

int frontier_read(int pid, uint64_t start, uint64_t end, uint64_t stride, struct frontier *f) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/pagemap", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  memset(f, 0, sizeof *f);
  if (fd < 0) return 0;
  for (uint64_t at = start; at < end; at += stride)
    if (!look(fd, at, f)) break;
  close(fd);
  if (f->present > 0) {
    int dense = (f->last - f->first) / stride + 1 == f->present;
    f->from_start = dense && f->first == start;
    f->to_end = dense && f->last + stride >= end;
  }
  return 1;
}

static int read_line(const char *path, char *line, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t n = read(fd, line, size - 1);
  close(fd);
  line[n < 0 ? 0 : n] = 0;
  return n > 0;
}

static int task_read(int pid, int tid, struct task *task) {
  char path[64], line[600];
  unsigned long user, system;
  unsigned long long ran = 0;
  memset(task, 0, sizeof *task);
  task->tid = tid;
  snprintf(path, sizeof path, "/proc/%d/task/%d/stat", pid, tid);
  if (!read_line(path, line, sizeof line)) return 0;
  char *open = strchr(line, '('), *close = strrchr(line, ')');
  if (open == NULL || close == NULL) return 0;
  snprintf(task->name, sizeof task->name, "%.*s", (int)(close - open - 1), open + 1);
  if (sscanf(close + 2, "%c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %lu", &task->state, &user, &system) < 3)
    return 0;
  task->user = (double)user / (double)sysconf(_SC_CLK_TCK);
  task->system = (double)system / (double)sysconf(_SC_CLK_TCK);
  snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", pid, tid);
  if (read_line(path, line, sizeof line)) sscanf(line, "%llu", &ran);
  task->ran = (double)ran / 1e9;
  return 1;
}

int tasks_read(int pid, struct task *tasks, int room) {
  char path[64];
  int count = 0;
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *directory = opendir(path);
  for (struct dirent *e; directory != NULL && count < room && (e = readdir(directory)) != NULL;)
    if (e->d_name[0] != '.' && task_read(pid, atoi(e->d_name), &tasks[count])) count++;
  if (directory != NULL) closedir(directory);
  return count;
}

struct tally {
  char name[120];
  int count;
};

static void add(struct tally *list, int *length, const char *name) {
  int i = 0;
  while (i < *length && strcmp(list[i].name, name) != 0) i++;
  if (i == *length && i < 32) {
    snprintf(list[i].name, sizeof list[i].name, "%s", name);
    list[(*length)++].count = 0;
  }
  if (i < 32) list[i].count++;
}

static int descriptors(int pid, struct tally *list, int *length) {
  char path[64], link[400], name[120];
  int found = 0;
  snprintf(path, sizeof path, "/proc/%d/fd", pid);
  DIR *directory = opendir(path);
  for (struct dirent *e; directory != NULL && (e = readdir(directory)) != NULL;) {
    snprintf(link, sizeof link, "%s/%s", path, e->d_name);
    ssize_t n = readlink(link, name, sizeof name - 1);
    if (n <= 0) continue;
    name[n] = 0;
    if (strstr(name, "nvidia") == NULL) continue;
    found++;
    if (list != NULL) add(list, length, name);
  }
  if (directory != NULL) closedir(directory);
  return found;
}

static void print_tally(const struct tally *list, int length) {
  for (int i = 0; i < length; i++) printf("%s%d x %s", i == 0 ? "" : ", ", list[i].count, list[i].name);
  if (length == 0) printf("none");
}

int nvidia_count(int pid) {
  struct maps maps = {0};
  int found = descriptors(pid, NULL, NULL);
  maps_read(pid, &maps);
  for (size_t i = 0; i < maps.count; i++) found += is_nvidia(&maps.items[i]);
  maps_free(&maps);
  return found;
}

void nvidia_print(int pid, const char *when) {
  struct tally files[32], ranges[32];
  struct maps maps = {0};
  int file_count = 0, range_count = 0;
  descriptors(pid, files, &file_count);
  maps_read(pid, &maps);
  for (size_t i = 0; i < maps.count; i++)
    if (is_nvidia(&maps.items[i])) add(ranges, &range_count, maps.items[i].name);
  maps_free(&maps);
  printf("  %-14s descriptors: ", when);
  print_tally(files, file_count);
  printf("; mappings: ");
  print_tally(ranges, range_count);
  printf("\n");
}
