/* The real driver keeps /dev/nvidia* open and mapped. The stand-ins, visible in /proc/PID/fd and /proc/PID/maps:
 *
 *   DIR/dev/nvidiactl, DIR/dev/nvidia0 ...   open character devices (nodes with /dev/fuse's number, a device
 *                                            CRIU cannot dump). A user without the right to make nodes has ordinary files of
 *                                            these names; it is the mapping, then, at which CRIU fails.
 *   DIR/dev/nvidia-memory7 or another         a mapping, never touched, of an unused loop device, at which CRIU fails
 *                                            as it does at the real thing: "Can't handle non-regular mapping".
 *                                            Without it, anon_inode:[io_uring] or anon_inode:[perf_event],
 *                                            at which CRIU fails with "Can't open PID's mapfile link".
 *
 * In a container that forbids all of them the process has no mapping; CRIU does not run there either. Like the driver's,
 * the files and mappings are inherited by fork (but for the perf event's). */
#include "references.h"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define FUSE_DEVICE makedev(10, 229)
#define LOOP_MAJOR 7
#define LOOP_DEVICES 8

int device_open(const char *name) {
  char path[PATH_MAX];
  machine_path(path, "dev/%s", name);
  if (mknod(path, S_IFCHR | 0666, FUSE_DEVICE) == 0) (void)!chmod(path, 0666);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd >= 0) return fd;
  (void)!unlink(path); /* a node that cannot be opened, as on a file system mounted nodev */
  fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd >= 0) (void)!fchmod(fd, 0666);
  return fd;
}

/* The machine's node of a loop device that exists and has no file behind it. */
static int loop_open(void) {
  char node[PATH_MAX], sys[64];
  for (unsigned minor = LOOP_DEVICES; minor-- > 0;) {
    snprintf(sys, sizeof sys, "/sys/block/loop%u", minor);
    bool exists = access(sys, F_OK) == 0;
    snprintf(sys, sizeof sys, "/sys/block/loop%u/loop/backing_file", minor);
    if (!exists || access(sys, F_OK) == 0) continue;
    machine_path(node, "dev/nvidia-memory%u", minor);
    if (mknod(node, S_IFBLK | 0444, makedev(LOOP_MAJOR, minor)) == 0) (void)!chmod(node, 0444);
    return open(node, O_RDONLY | O_CLOEXEC);
  }
  return -1;
}

static int ring_open(void) {
  struct io_uring_params parameters;
  memset(&parameters, 0, sizeof parameters);
  return (int)syscall(SYS_io_uring_setup, 1, &parameters);
}

static int perf_open(void) {
  struct perf_event_attr attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_DUMMY;
  attributes.exclude_kernel = 1;
  return (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* The mapping alone is enough: the descriptor is not kept. */
static bool map(struct references *r, int fd, size_t size, int protection) {
  if (fd < 0) return false;
  void *address = mmap(NULL, size, protection, MAP_SHARED, fd, 0);
  close(fd);
  if (address == MAP_FAILED) return false;
  r->mapping = address;
  r->mapping_size = size;
  return true;
}

void references_open(struct references *r, int gpus) {
  char name[32];
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  memset(r, 0, sizeof *r);
  r->control = device_open("nvidiactl");
  for (int i = 0; i < SIM_MAX_GPUS; i++) {
    snprintf(name, sizeof name, "nvidia%d", i);
    r->gpu[i] = i < gpus ? device_open(name) : -1;
  }
  if (!map(r, loop_open(), page, PROT_NONE) && !map(r, ring_open(), page, PROT_READ | PROT_WRITE))
    map(r, perf_open(), 2 * page, PROT_READ | PROT_WRITE);
}

void references_close(struct references *r) {
  if (r->mapping != NULL) munmap(r->mapping, r->mapping_size);
  r->mapping = NULL;
  if (r->control >= 0) close(r->control);
  r->control = -1;
  for (int i = 0; i < SIM_MAX_GPUS; i++) {
    if (r->gpu[i] >= 0) close(r->gpu[i]);
    r->gpu[i] = -1;
  }
}
