#include "machine.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool amd_is_kfd(const char *path) {
  const char *at = strstr(path, "/dev/kfd");
  return at != NULL && at[8] == 0;
}

bool amd_is_device(const char *path) { return amd_is_kfd(path) || strstr(path, "/dev/dri/renderD") != NULL; }

void amd_machine_of(const char *device, char *machine) {
  snprintf(machine, PATH_MAX, "%s", device);
  char *end = strstr(machine, amd_is_kfd(machine) ? "/dev/kfd" : "/dev/dri/renderD");
  if (end != NULL) *end = 0;
}

void amd_path(char *path, const char *machine, const char *name) { snprintf(path, PATH_MAX, "%s/%s", machine, name); }

void amd_memory_path(char *path, const char *machine, const char *kind, pid_t pid) {
  snprintf(path, PATH_MAX, "%s/%s/%d", machine, kind, pid);
}

ssize_t amd_read(int directory, const char *path, char *text, size_t size) {
  int fd = openat(directory, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t length = read(fd, text, size - 1);
  close(fd);
  if (length >= 0) text[length] = 0;
  return length;
}

int amd_write(int directory, const char *path, const char *text) {
  int fd = openat(directory, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return -1;
  ssize_t length = (ssize_t)strlen(text);
  bool written = write(fd, text, (size_t)length) == length;
  return close(fd) == 0 && written ? 0 : -1;
}
