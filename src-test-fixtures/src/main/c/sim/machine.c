/* Finds the machine's directory and reads its configuration.
 *
 * Keys of `config` (one key=value a line, # starts a comment) and the environment variables that override them:
 *   gpus            LIBCUDA_SIM_GPUS             number of GPUs (1)
 *   memory          LIBCUDA_SIM_MEMORY           bytes of each, with k, m or g (8g)
 *   context_memory  LIBCUDA_SIM_CONTEXT_MEMORY   bytes of a context without allocations (128m)
 *   save_overhead   LIBCUDA_SIM_SAVE_OVERHEAD    bytes of host memory that a checkpoint takes for a context (1m);
 *                                                driver 580 takes 553013248
 *   driver_version  LIBCUDA_SIM_DRIVER_VERSION   as cuDriverGetVersion gives it: 13010 is driver 590, which has
 *                                                job files (job_file.h), 13000 is 580, 12080 is 570
 *   bandwidth       LIBCUDA_SIM_BANDWIDTH        MB/s of checkpoint and restore copies; 0 is as fast as memcpy (0)
 *   checkpoint_bandwidth  LIBCUDA_SIM_CHECKPOINT_BANDWIDTH  the same of a checkpoint alone (bandwidth); driver 580 on
 *                                                an H200: 5000. The kernel's populating of the area is not paced
 *   restore_bandwidth     LIBCUDA_SIM_RESTORE_BANDWIDTH     the same of a restore alone (bandwidth); there: 5400 to 7400
 *   seed            LIBCUDA_SIM_SEED             text the GPU UUIDs are made from (the directory's path)
 * LIBCUDA_SIM_DIR names the directory; without it, it is where this library was loaded from. */
#include "machine.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifdef SIM_OLD
#define DEFAULT_VERSION 12040
#else
#define DEFAULT_VERSION 13000
#endif

static struct machine the_machine;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find_directory(struct machine *m) {
  const char *given = getenv("LIBCUDA_SIM_DIR");
  char resolved[PATH_MAX];
  Dl_info self;
  if (given != NULL && *given != '\0') {
    if (realpath(given, resolved) == NULL) snprintf(resolved, sizeof resolved, "%s", given);
    snprintf(m->dir, sizeof m->dir, "%.*s", (int)sizeof m->dir - 1, resolved);
  } else if (dladdr(&the_machine, &self) != 0 && realpath(self.dli_fname, resolved) != NULL) {
    snprintf(m->dir, sizeof m->dir, "%.*s", (int)sizeof m->dir - 1, dirname(resolved));
  }
}

/* The value of `key`: from the environment, else from the config file, else `otherwise`. */
static const char *setting(const struct machine *m, const char *key, const char *variable,
                           const char *otherwise, char *buffer, size_t size) {
  const char *value = getenv(variable);
  if (value != NULL && *value != '\0') return value;
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/config", m->dir);
  FILE *file = fopen(path, "re");
  if (file == NULL) return otherwise;
  char line[512];
  const char *found = otherwise;
  size_t length = strlen(key);
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, key, length) != 0 || line[length] != '=') continue;
    line[strcspn(line, "\r\n")] = '\0';
    snprintf(buffer, size, "%s", line + length + 1);
    found = buffer;
  }
  fclose(file);
  return found;
}

static uint64_t bytes(const char *text) {
  char *end;
  uint64_t number = strtoull(text, &end, 10);
  switch (*end) {
    case 'k': case 'K': return number << 10;
    case 'm': case 'M': return number << 20;
    case 'g': case 'G': return number << 30;
    default: return number;
  }
}

static uint64_t hash(const char *text, uint64_t start) {
  uint64_t h = 0xcbf29ce484222325ull ^ start;
  for (; *text != '\0'; text++) h = (h ^ (unsigned char)*text) * 0x100000001b3ull;
  return h ^ (h >> 29);
}

/* The driver release that brought a CUDA version, as NVML would name it. */
static const char *driver_of(int version) {
  if (version >= 13000) return version >= 13010 ? "590.48.01" : "580.159.04";
  if (version >= 12090) return "575.64.05";
  if (version >= 12080) return "570.211.01";
  if (version >= 12050) return "560.35.05";
  return "550.163.01";
}

static void read_bandwidths(struct machine *m) {
  char both[512], one[512];
  const char *each = setting(m, "bandwidth", "LIBCUDA_SIM_BANDWIDTH", "0", both, sizeof both);
  const char *checkpoint =
      setting(m, "checkpoint_bandwidth", "LIBCUDA_SIM_CHECKPOINT_BANDWIDTH", each, one, sizeof one);
  m->checkpoint_bandwidth = 1000000ull * strtoull(checkpoint, NULL, 10);
  const char *restore = setting(m, "restore_bandwidth", "LIBCUDA_SIM_RESTORE_BANDWIDTH", each, one, sizeof one);
  m->restore_bandwidth = 1000000ull * strtoull(restore, NULL, 10);
}

void machine_reload(void) {
  struct machine *m = &the_machine;
  char buffer[512];
  find_directory(m);
  int gpus = atoi(setting(m, "gpus", "LIBCUDA_SIM_GPUS", "1", buffer, sizeof buffer));
  m->gpus = gpus < 0 ? 0 : gpus > SIM_MAX_GPUS ? SIM_MAX_GPUS : gpus;
  m->memory = bytes(setting(m, "memory", "LIBCUDA_SIM_MEMORY", "8g", buffer, sizeof buffer));
  m->context_memory =
      bytes(setting(m, "context_memory", "LIBCUDA_SIM_CONTEXT_MEMORY", "128m", buffer, sizeof buffer));
  m->save_overhead =
      bytes(setting(m, "save_overhead", "LIBCUDA_SIM_SAVE_OVERHEAD", "1m", buffer, sizeof buffer));
  m->version = atoi(setting(m, "driver_version", "LIBCUDA_SIM_DRIVER_VERSION", "0", buffer, sizeof buffer));
  if (m->version == 0) m->version = DEFAULT_VERSION;
  snprintf(m->driver, sizeof m->driver, "%s", driver_of(m->version));
  read_bandwidths(m);
  m->process_memory =
      atoi(setting(m, "process_memory", "LIBCUDA_SIM_PROCESS_MEMORY", "1", buffer, sizeof buffer)) != 0;
  const char *seed = setting(m, "seed", "LIBCUDA_SIM_SEED", m->dir, buffer, sizeof buffer);
  for (int i = 0; i < SIM_MAX_GPUS; i++) {
    uint64_t halves[2] = {hash(seed, (uint64_t)i * 2 + 1), hash(seed, (uint64_t)i * 2 + 2)};
    memcpy(m->uuid[i].bytes, halves, sizeof halves);
  }
  /* The driver's is named cuda00001400006, say. */
  snprintf(m->control_name, sizeof m->control_name, "cuda0000%07x", (unsigned)hash(m->dir, 0) & 0xfffffff);
}

/* Other users' processes may share the machine, so its directories are open to all. */
static void make_directory(const char *name) {
  char path[PATH_MAX];
  machine_path(path, "%s", name);
  if (mkdir(path, 0777) == 0) (void)!chmod(path, 0777);
}

static void start(void) {
  machine_reload();
  make_directory("state");
  make_directory("state/calls");
  make_directory("state/usage");
  make_directory("dev");
  make_directory("dev/nvidia-usage"); /* on overlayfs, see card.h */
}

const struct machine *machine(void) {
  pthread_once(&once, start);
  return &the_machine;
}

void machine_path(char *path, const char *format, ...) {
  int length = snprintf(path, PATH_MAX, "%s/", the_machine.dir);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(path + length, (size_t)(PATH_MAX - length), format, arguments);
  va_end(arguments);
}

int machine_find(const CUuuid *uuid) {
  const struct machine *m = machine();
  for (int i = 0; i < m->gpus; i++)
    if (memcmp(&m->uuid[i], uuid, sizeof *uuid) == 0) return i;
  return -1;
}

void uuid_format(const CUuuid *uuid, char text[41]) {
  char *out = text + sprintf(text, "GPU-");
  for (int i = 0; i < 16; i++)
    out += sprintf(out, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid->bytes[i]);
}

int uuid_parse(const char *text, CUuuid *uuid) {
  if (strncmp(text, "GPU-", 4) == 0) text += 4;
  for (int i = 0; i < 16; i++) {
    if (*text == '-') text++;
    unsigned byte;
    if (sscanf(text, "%2x", &byte) != 1) return -1;
    uuid->bytes[i] = (unsigned char)byte;
    text += 2;
  }
  return *text == '\0' ? 0 : -1;
}

int machine_open(const char *name) {
  char path[PATH_MAX];
  machine_path(path, "%s", name);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd >= 0 || errno != ENOENT) return fd;
  fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd >= 0) (void)!fchmod(fd, 0666);
  return fd;
}
