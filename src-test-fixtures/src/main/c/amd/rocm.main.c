/* A process that uses the AMD GPU of the directory in AMD_MACHINE, see plugin.c. It has the device files open, and one
 * mapped where this machine has an unused loop device, as which that one is made.
 *   add N    adds to the number in its GPU memory, and answers it; "lost" without GPU memory, "stopped" without a queue
 *   map      the first address of its mapping, 0 for none */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "../workloads/udp.h"
#include "machine.h"

#define FUSE_DEVICE makedev(10, 229) /* a device that CRIU dumps only with a plugin */
#define LOOP_MAJOR 7
#define LOOP_DEVICES 8

static const char *machine;
static void *mapping;

static void answer(const char *request, char *reply) {
  char path[PATH_MAX], memory[AMD_VRAM];
  if (strcmp(request, "map") == 0) {
    snprintf(reply, ANSWER_SIZE, "%lx", (unsigned long)mapping);
    return;
  }
  amd_memory_path(path, machine, "queue", getpid());
  bool takes_work = access(path, F_OK) == 0;
  amd_memory_path(path, machine, "vram", getpid());
  if (amd_read(AT_FDCWD, path, memory, sizeof memory) < 0) {
    snprintf(reply, ANSWER_SIZE, "lost");
  } else if (!takes_work) {
    snprintf(reply, ANSWER_SIZE, "stopped");
  } else {
    long number = strtol(memory, NULL, 10) + (strncmp(request, "add ", 4) == 0 ? strtol(request + 4, NULL, 10) : 0);
    snprintf(memory, sizeof memory, "%ld", number);
    snprintf(reply, ANSWER_SIZE, "%s", amd_write(AT_FDCWD, path, memory) == 0 ? memory : "lost");
  }
}

static int node(const char *name, mode_t kind, dev_t number, int flags) {
  char path[PATH_MAX];
  amd_path(path, machine, name);
  (void)!mknod(path, kind | 0666, number);
  return open(path, flags | O_CLOEXEC);
}

/* The mapping is never touched: nothing is behind it. */
static void map(void) {
  char sys[64];
  for (unsigned minor = LOOP_DEVICES; minor-- > 0 && mapping == NULL;) {
    snprintf(sys, sizeof sys, "/sys/block/loop%u", minor);
    bool exists = access(sys, F_OK) == 0;
    snprintf(sys, sizeof sys, "/sys/block/loop%u/loop/backing_file", minor);
    if (!exists || access(sys, F_OK) == 0) continue;
    int fd = node("dev/dri/renderD128", S_IFBLK, makedev(LOOP_MAJOR, minor), O_RDONLY);
    if (fd < 0) continue;
    void *at = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_NONE, MAP_SHARED, fd, 0);
    close(fd);
    if (at != MAP_FAILED) mapping = at;
  }
}

static int use(const struct options *options) {
  char path[PATH_MAX];
  machine = getenv("AMD_MACHINE");
  if (machine == NULL) return 1;
  int kfd = node("dev/kfd", S_IFCHR, FUSE_DEVICE, O_RDWR);
  if (kfd < 0 || fcntl(kfd, F_SETOWN, getpid()) != 0) {
    perror("kfd");
    return 1;
  }
  map();
  amd_memory_path(path, machine, "vram", getpid());
  if (amd_write(AT_FDCWD, path, "0") != 0) return 1;
  amd_memory_path(path, machine, "queue", getpid());
  if (amd_write(AT_FDCWD, path, "") != 0) return 1;
  return serve(options, answer);
}

int main(int argc, char **argv) {
  struct options options = parse_options(argc, argv);
  return run(&options, use);
}
