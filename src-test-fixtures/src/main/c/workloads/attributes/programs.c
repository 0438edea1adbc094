/* Where the program was executed from, and the control group that it was started in. */
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attributes.h"
#include "keeper.h"

static char *mounted[4], *made[4];
static int mounted_count, made_count;

void undo_outside(void) {
  /* A directory that is removed is empty by then; a control group with the restored process in it stays until later. */
  while (mounted_count > 0) umount2(mounted[--mounted_count], MNT_DETACH);
  while (made_count > 0) rmdir(made[--made_count]);
}

static int copy_to(int out) {
  char buffer[65536];
  int in = may(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  for (ssize_t size; (size = may(read(in, buffer, sizeof buffer))) > 0;)
    if (write(out, buffer, size) != size) impossible("copy");
  close(in);
  return out;
}

static char *copy_as(const char *name) {
  char *path = own_path(name);
  close(copy_to(may(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755))));
  return path;
}

void execute_program(char **arguments) {
  if (has("exe-memfd")) {
    int program = copy_to(may(memfd_create("program", MFD_CLOEXEC)));
    fexecve(program, arguments, environ);
  } else if (has("exe-deleted") || has("exe-replaced") || has("exe-renamed")) {
    execv(copy_as("program"), arguments);
  } else if (has("exe-overlay")) {
    execv(copy_as("merged/program"), arguments);
  } else {
    char path[4096] = "";
    if (readlink("/proc/self/exe", path, sizeof path - 1) > 0) execv(path, arguments);
  }
}

static void delete_program(void) { may(unlink(own_path("program"))); }
static void rename_program(void) { may(rename(own_path("program"), own_path("renamed"))); }

static void replace_program(void) {
  close(copy_to(may(open(own_path("program.new"), O_WRONLY | O_CREAT | O_CLOEXEC, 0755))));
  may(rename(own_path("program.new"), own_path("program")));
}

/* Without its name: a program whose name belongs to another file gets one of CRIU's. */
static void tell_program(void) {
  struct stat state = {0};
  long result = stat("/proc/self/exe", &state);
  tell("program %s size %ld links %d", outcome(result), (long)state.st_size, state.st_nlink > 0);
}

static void mount_overlay(void) {
  char *options = NULL;
  mkdir(own_path("lower"), 0755);
  mkdir(own_path("upper"), 0755);
  mkdir(own_path("work"), 0755);
  mkdir(own_path("merged"), 0755);
  if (asprintf(&options, "lowerdir=%s,upperdir=%s,workdir=%s", own_path("lower"), own_path("upper"), own_path("work")) < 0)
    impossible("no memory");
  if (mount("overlay", own_path("merged"), "overlay", 0, options) == 0) {
    mounted[mounted_count++] = own_path("merged");
    return;
  }
  /* An overlay cannot be the upper layer of another; a tmpfs can. */
  may(mount("layers", own_path("lower"), "tmpfs", 0, NULL));
  mounted[mounted_count++] = own_path("lower");
  mkdir(own_path("lower/l"), 0755);
  mkdir(own_path("lower/u"), 0755);
  mkdir(own_path("lower/w"), 0755);
  if (asprintf(&options, "lowerdir=%s,upperdir=%s,workdir=%s", own_path("lower/l"), own_path("lower/u"), own_path("lower/w")) < 0)
    impossible("no memory");
  may(mount("overlay", own_path("merged"), "overlay", 0, options));
  mounted[mounted_count++] = own_path("merged");
}

/* A control group of its own below that of the keeper. */
static void join_group(const char *root, const char *file) {
  char *path = NULL, *processes = NULL, *limit = NULL;
  if (asprintf(&path, "%s/gpuprocess-attributes-%d", root, getpid()) < 0) impossible("no memory");
  may(mkdir(path, 0755));
  made[made_count++] = path;
  if (asprintf(&processes, "%s/cgroup.procs", path) < 0 || asprintf(&limit, "%s/%s", path, file) < 0) impossible("no memory");
  int group = open(limit, O_WRONLY | O_CLOEXEC);
  if (group >= 0) {
    if (write(group, "777", 3) < 0) tell("limit");
    close(group);
  }
  /* The keeper itself stays outside: the root joins before its exec. */
  setenv("ATTRIBUTES_GROUP", processes, 1);
  setenv("ATTRIBUTES_LIMIT", limit, 1);
}

static void make_group(void) {
  char root[4096];
  const char *line = first_line("/proc/self/cgroup"); /* of version 2 when there is one line alone */
  struct stat state;
  if (stat("/sys/fs/cgroup/cgroup.procs", &state) == 0)
    snprintf(root, sizeof root, "/sys/fs/cgroup%s", strncmp(line, "0::", 3) == 0 && strcmp(line, "0::/") != 0 ? line + 3 : "");
  else if (stat("/sys/fs/cgroup/unified/cgroup.procs", &state) == 0)
    snprintf(root, sizeof root, "/sys/fs/cgroup/unified");
  else
    impossible("no control groups of version 2");
  join_group(root, "pids.max");
}

static void make_old_group(void) {
  struct stat state;
  if (stat("/sys/fs/cgroup/memory/cgroup.procs", &state) == 0)
    join_group("/sys/fs/cgroup/memory", "memory.swappiness");
  else if (stat("/sys/fs/cgroup/pids/cgroup.procs", &state) == 0)
    join_group("/sys/fs/cgroup/pids", "pids.max");
  else
    impossible("no control groups of version 1");
}

void enter_group(void) {
  const char *processes = getenv("ATTRIBUTES_GROUP");
  if (!processes) return;
  int file = may(open(processes, O_WRONLY | O_CLOEXEC));
  may(write(file, "0", 1));
  close(file);
}

static void tell_group(void) {
  tell("group %d", strstr(first_line("/proc/self/cgroup"), "gpuprocess-attributes-") != NULL);
  tell("limit %s", first_line(getenv("ATTRIBUTES_LIMIT")));
}

const struct attribute program_attributes[] = {
    {"exe-memfd", BEFORE_EXEC, NULL, tell_program},
    {"exe-deleted", EARLY, delete_program, tell_program},
    {"exe-replaced", EARLY, replace_program, tell_program},
    {"exe-renamed", EARLY, rename_program, tell_program},
    {"exe-overlay", OUTSIDE, mount_overlay, tell_program},
    {"cgroup2", OUTSIDE, make_group, tell_group},
    {"cgroup1", OUTSIDE, make_old_group, tell_group},
    {0},
};
