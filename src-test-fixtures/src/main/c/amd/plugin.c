/* Stands in for CRIU's amdgpu_plugin.so, with the hooks that it has and a GPU that is a directory, MACHINE:
 *
 *   MACHINE/dev/kfd, MACHINE/dev/dri/renderD*   the device files, recognised by these names
 *   MACHINE/vram/PID                            the GPU memory of a process, removed by the one that ends the process
 *   MACHINE/queue/PID                           there while the GPU takes work of that process
 *   MACHINE/fail                                "dump", "restore" or "resume": what fails
 *
 * A dump has CRIU hand over each descriptor and mapping of a device, and writes amdgpu-ID.img: the path of the device
 * and, of kfd, the GPU memory. A restore opens the device, and gives the GPU memory to the process that it is called
 * in. Its queue begins just before CRIU resumes it.
 *
 * It is linked with nothing, so that it fits the C library of whatever CRIU loads it. What it has in common with CRIU
 * is the layout of the descriptor (version 0.2.0), the numbers of the hooks and four functions. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "machine.h"

#define NAME "amdgpu_plugin"
#define VERSION (2 << 8)

enum stage { DUMP = 0, RESTORE = 2 };
enum hook { DUMP_FILE = 2, RESTORE_FILE = 3, HANDLE_MAPPING = 7, UPDATE_MAPPING = 8, RESUME_LATE = 9, HOOKS };

int criu_get_image_dir(void);
int add_inventory_plugin(const char *name);
int check_and_remove_inventory_plugin(const char *name, size_t length);

static bool in_inventory, idle;

static bool told_to_fail(const char *machine, const char *what) {
  char path[PATH_MAX], said[16] = "";
  amd_path(path, machine, "fail");
  (void)!amd_read(AT_FDCWD, path, said, sizeof said);
  return strcmp(said, what) == 0;
}

/* The path of the device that a descriptor of this process is of; false for anything else. */
static bool device_of(int fd, char *device) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, device, PATH_MAX - 1);
  if (length < 0) return false;
  device[length] = 0;
  return amd_is_device(device);
}

/* The images name the plugin, so that a restore without it is refused. */
static int take_part(void) {
  if (!in_inventory && add_inventory_plugin(NAME) != 0) return -1;
  in_inventory = true;
  return 0;
}

static int dump_file(int fd, int id) {
  char device[PATH_MAX], machine[PATH_MAX], image[64], memory[AMD_VRAM] = "", text[PATH_MAX + AMD_VRAM + 2];
  if (!device_of(fd, device)) return -ENOTSUP;
  amd_machine_of(device, machine);
  if (told_to_fail(machine, "dump")) return -EIO;
  if (amd_is_kfd(device)) {
    char path[PATH_MAX];
    amd_memory_path(path, machine, "vram", fcntl(fd, F_GETOWN));
    if (amd_read(AT_FDCWD, path, memory, sizeof memory) < 0) return -EIO;
  }
  snprintf(image, sizeof image, "amdgpu-%d.img", id);
  snprintf(text, sizeof text, "%s\n%s", device, memory);
  if (amd_write(criu_get_image_dir(), image, text) != 0) return -EIO;
  return take_part();
}

static int restore_file(int id) {
  char image[64], text[PATH_MAX + AMD_VRAM + 2] = "", machine[PATH_MAX], path[PATH_MAX];
  if (idle) return -ENOTSUP;
  snprintf(image, sizeof image, "amdgpu-%d.img", id);
  if (amd_read(criu_get_image_dir(), image, text, sizeof text) < 0) return -ENOTSUP;
  char *memory = strchr(text, '\n');
  if (memory == NULL) return -EIO;
  *memory++ = 0;
  amd_machine_of(text, machine);
  if (told_to_fail(machine, "restore")) return -EIO;
  int fd = open(text, O_RDWR | O_CLOEXEC);
  if (fd >= 0 && amd_is_kfd(text)) {
    amd_memory_path(path, machine, "vram", getpid());
    if (amd_write(AT_FDCWD, path, memory) != 0) {
      close(fd);
      return -EIO;
    }
  }
  return fd;
}

static int handle_mapping(int fd, const struct stat *status) {
  char device[PATH_MAX];
  (void)status;
  return device_of(fd, device) ? take_part() : -ENOTSUP;
}

static int update_mapping(const char *path, uint64_t address, uint64_t old, uint64_t *now, int *fd) {
  (void)address;
  if (idle || !amd_is_device(path)) return 0;
  *fd = open(path, O_RDONLY | O_CLOEXEC);
  *now = old;
  return 1;
}

static int resume_late(int pid) {
  char link[64], device[PATH_MAX], machine[PATH_MAX], path[PATH_MAX];
  if (idle) return -ENOTSUP;
  for (int fd = 0; fd < 256; fd++) {
    snprintf(link, sizeof link, "/proc/%d/fd/%d", pid, fd);
    ssize_t length = readlink(link, device, sizeof device - 1);
    if (length < 0) continue;
    device[length] = 0;
    if (!amd_is_kfd(device)) continue;
    amd_machine_of(device, machine);
    if (told_to_fail(machine, "resume")) return -EIO;
    amd_memory_path(path, machine, "queue", pid);
    return amd_write(AT_FDCWD, path, "");
  }
  return -ENOTSUP;
}

static int begin(int stage) {
  idle = stage == RESTORE && !check_and_remove_inventory_plugin(NAME, sizeof NAME - 1);
  return 0;
}

static void end(int stage, int result) {
  (void)stage;
  (void)result;
}

__attribute__((visibility("default"))) struct {
  const char *name;
  int (*begin)(int stage);
  void (*end)(int stage, int result);
  unsigned version, hooks;
  void *hook[HOOKS];
} CR_PLUGIN_DESC = {
    NAME,
    begin,
    end,
    VERSION,
    HOOKS,
    {[DUMP_FILE] = (void *)dump_file,
     [RESTORE_FILE] = (void *)restore_file,
     [HANDLE_MAPPING] = (void *)handle_mapping,
     [UPDATE_MAPPING] = (void *)update_mapping,
     [RESUME_LATE] = (void *)resume_late},
};
