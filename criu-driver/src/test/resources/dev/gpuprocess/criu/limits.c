// Preloaded into a CRIU whose root has no CAP_SYS_RESOURCE, as in some containers: the kernel does not tell it the limits
// of another user's process, so they are read where everybody may.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static rlim_t value(const char *text) {
  return strcmp(text, "unlimited") == 0 ? RLIM_INFINITY : strtoull(text, NULL, 10);
}

static int read_limit(int pid, int resource, struct rlimit *limit) {
  char line[256];
  snprintf(line, sizeof line, "/proc/%d/limits", pid);
  FILE *limits = fopen(line, "re");
  if (limits == NULL) return -1;
  int found = -1;
  // A line of titles, and then one for each, in the order of their numbers.
  for (int number = -1; found < 0 && fgets(line, sizeof line, limits) != NULL; number++) {
    char soft[32], hard[32];
    if (number == resource && sscanf(line + strlen("Max realtime timeout      "), "%31s %31s", soft, hard) == 2) {
      limit->rlim_cur = value(soft);
      limit->rlim_max = value(hard);
      found = 0;
    }
  }
  fclose(limits);
  return found;
}

// CRIU asks by this function of the C library.
long syscall(long number, ...) {
  long argument[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; i++) argument[i] = va_arg(list, long);
  va_end(list);
  if (number == SYS_prlimit64 && argument[0] != 0 && argument[2] == 0) {
    return read_limit((int)argument[0], (int)argument[1], (struct rlimit *)argument[3]);
  }
  static long (*next)(long, ...);
  if (next == NULL) next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  return next(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
}
