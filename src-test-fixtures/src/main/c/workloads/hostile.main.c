/* The pattern (pattern.main.c), in a process that tries to hold or mislead its reader. The variable HOSTILE names the trick:
 *   chain      the hash table of libcuda has a chain without an end, of 18 GiB of zeros
 *   buckets    the hash table has no buckets
 *   dynamic    the dynamic table has a negative size
 *   symbols    libcuda imports 65,535 symbols, and its tables are zeros
 *   userfault  the hash table is on a page that never arrives (userfaultfd)
 *   stack      the stack of a waiting thread is on such pages
 *   environment  the pages of the environment, which must have more than two of them, are such pages
 *   mappings   as many mappings of code as the kernel allows, each of 64 pages
 *   lease      files without a name, each with a write lease, mapped where a hook says that save files are
 * Answers beside those of the pattern:
 *   trick      plays it: "played", or why this machine does not allow it
 *   written    how many of the files have another size or content */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cuda.h"
#include "pattern.h"
#include "udp.h"

#define PAGE 4096UL
#define FILES 64
#define CONTENT 'x'

static char played[200] = "played";
static int files[FILES], opened;

static void cannot(const char *what) { snprintf(played, sizeof played, "%s: %s", what, strerror(errno)); }

static char *map(void *at, size_t bytes, int protection) {
  int fixed = at ? MAP_FIXED_NOREPLACE : 0;
  char *memory = mmap(at, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
  if (memory == MAP_FAILED) {
    cannot("mmap");
    return NULL;
  }
  return memory;
}

/* libcuda in this process; its tables are writable afterwards. */
static struct {
  char *base;
  Elf64_Phdr *segment;
  Elf64_Dyn *dynamic;
} library;

static void find_cuda(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[4096 + 200];
  while (maps && fgets(line, sizeof line, maps)) {
    unsigned long start, end;
    char permissions[5];
    if (!strstr(line, "/libcuda.so") || sscanf(line, "%lx-%lx %4s", &start, &end, permissions) != 3) continue;
    if (!library.base) library.base = (char *)start;
    if (permissions[0] == 'r' && permissions[2] != 'x') mprotect((void *)start, end - start, PROT_READ | PROT_WRITE);
  }
  if (maps) fclose(maps);
  if (!library.base) {
    cannot("no libcuda");
    return;
  }
  Elf64_Ehdr *header = (Elf64_Ehdr *)library.base;
  Elf64_Phdr *segments = (Elf64_Phdr *)(library.base + header->e_phoff);
  for (int i = 0; i < header->e_phnum; i++)
    if (segments[i].p_type == PT_DYNAMIC) {
      library.segment = segments + i;
      library.dynamic = (Elf64_Dyn *)(library.base + segments[i].p_vaddr);
    }
}

static void set(Elf64_Sxword tag, const void *table) {
  for (Elf64_Dyn *each = library.dynamic; each->d_tag != DT_NULL; each++)
    if (each->d_tag == tag) each->d_un.d_ptr = (Elf64_Addr)table;
}

/* Tables are above the library, where their addresses cannot be taken for offsets in it. */
static char *above(size_t bytes) {
  for (unsigned long far = 1UL << 30; far < 1UL << 40; far *= 2) {
    char *memory = map((void *)(((uintptr_t)library.base + far) & -PAGE), bytes, PROT_READ | PROT_WRITE);
    if (memory) {
      snprintf(played, sizeof played, "played");
      return memory;
    }
  }
  return NULL;
}

static void endless_chain(void) {
  char *zeros = above(18UL << 30);
  if (!zeros) return;
  uint32_t *table = (uint32_t *)(zeros + PAGE);
  table[0] = 1; /* one bucket */
  table[1] = 1; /* the first symbol */
  table[4] = 1; /* the bucket */
  set(DT_GNU_HASH, table);
}

static void no_buckets(void) {
  char *zeros = above(PAGE);
  if (zeros) set(DT_GNU_HASH, zeros);
}

static void many_symbols(void) {
  char *zeros = above(65536 * sizeof(Elf64_Sym));
  char *table = zeros ? map(NULL, PAGE, PROT_READ | PROT_WRITE) : NULL;
  if (!table) return;
  ((uint32_t *)table)[0] = 1;
  ((uint32_t *)table)[1] = 65535;
  set(DT_GNU_HASH, table);
  set(DT_SYMTAB, zeros);
}

/* Makes pages such that each access to one that is absent never returns. */
static bool watch(void *pages, size_t bytes) {
  int fault = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
  struct uffdio_api api = {.api = UFFD_API};
  struct uffdio_register range = {{(uintptr_t)pages, bytes}, UFFDIO_REGISTER_MODE_MISSING, 0};
  if (fault < 0 || ioctl(fault, UFFDIO_API, &api) || ioctl(fault, UFFDIO_REGISTER, &range)) {
    cannot("userfaultfd");
    if (fault >= 0) close(fault);
    return false;
  }
  return true;
}

static bool never_arrive(void *pages, size_t bytes) {
  if (!watch(pages, bytes)) return false;
  if (madvise(pages, bytes, MADV_DONTNEED)) cannot("madvise");
  return true;
}

static void absent_table(void) {
  char *page = above(PAGE);
  if (page && never_arrive(page, PAGE)) set(DT_GNU_HASH, page);
}

#define STACK (64 * PAGE)

static struct {
  char *pages;
  sem_t done;
} stack;

/* The hole is in the frame, above the stack pointer and in the same mapping. */
static void *wait_below_a_hole(void *unused) {
  (void)unused;
  char frame[16 * PAGE];
  memset(frame, 1, sizeof frame);
  if (watch(stack.pages, STACK) && madvise((void *)(((uintptr_t)frame + 4 * PAGE) & -PAGE), 4 * PAGE, MADV_DONTNEED))
    cannot("madvise");
  sem_post(&stack.done);
  for (;;) {
    pause();
    __asm__ volatile("" : : "r"(frame) : "memory");
  }
  return NULL;
}

static void absent_stack(void) {
  pthread_t thread;
  pthread_attr_t attributes;
  stack.pages = map(NULL, STACK, PROT_READ | PROT_WRITE);
  if (!stack.pages) return;
  memset(stack.pages, 0, STACK); /* all pages are there */
  if (sem_init(&stack.done, 0, 0) || pthread_attr_init(&attributes) || pthread_attr_setstack(&attributes, stack.pages, STACK) ||
      pthread_create(&thread, &attributes, wait_below_a_hole, NULL))
    cannot("pthread_create");
  else sem_wait(&stack.done);
}

static void absent_environment(void) {
  extern char **environ;
  int count = 0;
  while (environ[count]) count++;
  char **copies = calloc((size_t)count + 1, sizeof *copies);
  uintptr_t first = UINTPTR_MAX, last = 0;
  for (int i = 0; copies && i < count; i++) {
    uintptr_t start = (uintptr_t)environ[i], end = start + strlen(environ[i]);
    first = start < first ? start : first;
    last = end > last ? end : last;
    copies[i] = strdup(environ[i]);
  }
  environ = copies;
  first = (first + PAGE - 1) & -PAGE;
  last &= -PAGE;
  if (last > first) never_arrive((void *)first, last - first);
}

static void many_mappings(void) {
  size_t part = 65 * PAGE, count = 32000;
  char *memory = map(NULL, count * part, PROT_READ | PROT_WRITE);
  /* the kernel ends it where no more are allowed; some must be left for this process itself */
  for (size_t i = 0; memory && i < count; i++)
    if (mprotect(memory + i * part, 64 * PAGE, PROT_READ | PROT_EXEC)) break;
  if (memory) munmap(memory, 64 * part);
}

static void leased_files(void) {
  char *area = map(NULL, 2 * FILES * PAGE, PROT_NONE);
  char *hook = map(NULL, 2 * PAGE, PROT_READ | PROT_WRITE);
  signal(SIGIO, SIG_IGN);
  for (; area && hook && opened < FILES; opened++) {
    char content[PAGE];
    memset(content, CONTENT, sizeof content);
    int file = files[opened] = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0 || write(file, content, PAGE) != (ssize_t)PAGE) {
      cannot("O_TMPFILE");
      return;
    }
    if (mmap(area + 2 * PAGE * (size_t)opened, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED ||
        fcntl(file, F_SETLEASE, F_WRLCK))
      cannot("a lease");
  }
  if (!area || !hook) return;
  memcpy(hook, "GPUHook2", 8); /* see hook.h */
  *(int *)(hook + PAGE + 32) = 1;
  *(uint64_t *)(hook + PAGE + 40) = (uint64_t)area;
  *(uint64_t *)(hook + PAGE + 48) = 2 * FILES * PAGE;
  *(uint64_t *)(hook + PAGE + 56) = 1;
  mprotect(hook, PAGE, PROT_READ | PROT_EXEC);
}

static int written(void) {
  int count = 0;
  for (int i = 0; i < opened; i++) {
    struct stat status;
    char content[PAGE];
    bool same = !fstat(files[i], &status) && status.st_size == (off_t)PAGE && status.st_nlink == 0 &&
                pread(files[i], content, PAGE, 0) == (ssize_t)PAGE;
    for (size_t at = 0; same && at < PAGE; at++) same = content[at] == CONTENT;
    count += !same;
  }
  return count;
}

static void play(const char *trick) {
  static bool done;
  if (done) return;
  done = true;
  find_cuda();
  if (!library.dynamic) return;
  if (!strcmp(trick, "chain")) endless_chain();
  else if (!strcmp(trick, "buckets")) no_buckets();
  else if (!strcmp(trick, "dynamic")) library.segment->p_memsz = (Elf64_Xword)-4096;
  else if (!strcmp(trick, "symbols")) many_symbols();
  else if (!strcmp(trick, "userfault")) absent_table();
  else if (!strcmp(trick, "stack")) absent_stack();
  else if (!strcmp(trick, "environment")) absent_environment();
  else if (!strcmp(trick, "mappings")) many_mappings();
  else if (!strcmp(trick, "lease")) leased_files();
  else snprintf(played, sizeof played, "no such trick");
}

static void answer(const char *request, char *reply) {
  const char *trick = getenv("HOSTILE");
  if (!strcmp(request, "trick")) {
    play(trick ? trick : "");
    snprintf(reply, ANSWER_SIZE, "%s", played);
  } else if (!strcmp(request, "written")) snprintf(reply, ANSWER_SIZE, "%d", written());
  else if (!cuda_answer(request, reply) && !pattern_answer(request, reply))
    snprintf(reply, ANSWER_SIZE, "not understood: %.100s", request);
}

int main(int argc, char **argv) {
  struct options options = parse_options(argc, argv);
  cuda_start(options.gpu);
  pattern_start(options.mebibytes < 0 ? 4 : options.mebibytes, options.seed);
  return serve(&options, answer);
}
