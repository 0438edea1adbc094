/* A library that is preloaded into a launched process. The child of a process that has used CUDA inherits the device files
 * of the driver, open and mapped. The child cannot use CUDA, the driver has no state for it, and CRIU cannot dump it. So in
 * every child, before fork returns, each descriptor of a device is replaced by one of /dev/null, so that its number stays in
 * use, and each mapping by inaccessible memory, so that its addresses stay in use.
 * Only system calls are allowed here, since the parent may have several threads. */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char device[] = "/dev/nvidia";

/* The simulated driver of the fixtures has its devices below directories with this name. */
static const char simulated[] = "/libcuda-sim";

/* A fork may be made on a small stack. The prefix of a path is enough. */
enum { NAME = 512, ENTRIES = 1024, MAPS = 2048 };

static int begins_with(const char *text, const char *wanted) {
  while (*wanted != 0 && *text == *wanted) {
    text++;
    wanted++;
  }
  return *wanted == 0;
}

/* Returns whether a path is a device file of the driver, and not below a home directory called dev. */
static int is_device(const char *path) {
  if (begins_with(path, device)) return 1;
  while (*path != 0 && !begins_with(path, simulated)) path++;
  while (*path != 0 && !begins_with(path, device)) path++;
  return *path != 0;
}

struct entry {
  uint64_t inode, offset;
  unsigned short length;
  unsigned char type;
  char name[];
};

static int number_of(const char *name) {
  int number = 0;
  if (*name == 0) return -1;
  for (; *name != 0; name++) {
    if (*name < '0' || *name > '9' || number > 100000000) return -1;
    number = number * 10 + (*name - '0');
  }
  return number;
}

static void release_descriptors(int null) {
  char entries[ENTRIES] __attribute__((aligned(8)));
  char target[NAME];
  int list = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (list < 0) return;
  long got;
  while ((got = syscall(SYS_getdents64, list, entries, sizeof entries)) > 0) {
    for (long at = 0; at < got;) {
      struct entry *entry = (struct entry *)(entries + at);
      at += entry->length;
      int number = number_of(entry->name);
      if (number < 0 || number == list || number == null) continue;
      ssize_t length = readlinkat(list, entry->name, target, sizeof target - 1);
      target[length < 0 ? 0 : length] = 0;
      if (is_device(target)) {
        int flags = fcntl(number, F_GETFD);
        dup3(null, number, flags >= 0 && (flags & FD_CLOEXEC) ? O_CLOEXEC : 0);
      }
    }
  }
  close(list);
}

static const char *hexadecimal(const char *text, uintptr_t *value) {
  for (*value = 0;; text++) {
    int digit = *text >= '0' && *text <= '9' ? *text - '0' : *text >= 'a' && *text <= 'f' ? *text - 'a' + 10 : -1;
    if (digit < 0) return text;
    *value = *value << 4 | (uintptr_t)digit;
  }
}

static void cover(const char *line) {
  uintptr_t from, to;
  const char *next = hexadecimal(line, &from), *path = line;
  while (*path != 0 && *path != '/') path++;
  if (*next != '-' || !is_device(path)) return;
  hexadecimal(next + 1, &to);
  if (to > from)
    mmap((void *)from, to - from, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

/* The kernel returns whole lines, and continues after the last address if the mappings have changed. */
static void release_mappings(void) {
  char text[MAPS];
  size_t kept = 0;
  int skips = 0; /* the rest of a line */
  int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0) return;
  ssize_t got;
  while ((got = read(maps, text + kept, sizeof text - 1 - kept)) > 0) {
    size_t length = kept + (size_t)got, line = 0;
    for (size_t at = kept; at < length; at++) {
      if (text[at] != '\n') continue;
      text[at] = 0;
      if (!skips) cover(text + line);
      skips = 0;
      line = at + 1;
    }
    kept = length - line;
    for (size_t at = 0; at < kept; at++) text[at] = text[line + at];
    if (kept == sizeof text - 1) {
      text[kept] = 0;
      if (!skips) cover(text);
      skips = 1;
      kept = 0;
    }
  }
  close(maps);
}

static void in_child(void) {
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  release_descriptors(null);
  close(null);
  release_mappings();
}

/* What pthread_atfork of glibc calls. Weak, so that programs of other C libraries start, too, without this handler. */
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

__attribute__((constructor)) static void begin(void) {
  if (__register_atfork != NULL) __register_atfork(NULL, NULL, in_child, __dso_handle);
}
