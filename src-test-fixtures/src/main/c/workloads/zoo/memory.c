/* Memory of every kind, with the advice given to the kernel. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sched.h>
#include <unistd.h>

#include "zoo.h"

enum { PAGE = 4096, PAGES = 64, BYTES = PAGES * PAGE };

static int fd;
static uint32_t *memory, *second;

static void *map(size_t bytes, int protection, int flags, int from) {
  void *at = mmap(NULL, bytes, protection, flags, from, 0);
  if (at == MAP_FAILED) bad("mmap: %s", strerror(errno));
  return at;
}

/* Every page its own numbers; those whose number divides by 5 are never touched. */
static uint32_t number(int page, int word) { return page % 5 == 0 ? 0 : page * 2654435761u + word; }

static void paint(uint32_t *at) {
  for (int page = 0; page < PAGES; page++)
    for (int word = 0; page % 5 != 0 && word < PAGE / 4; word++) at[page * PAGE / 4 + word] = number(page, word);
}

static void expect_paint(const uint32_t *at) {
  for (int page = 0; page < PAGES; page++)
    for (int word = 0; word < PAGE / 4; word++)
      if (at[page * PAGE / 4 + word] != number(page, word)) bad("page %d is altered at word %d", page, word);
}

/* Whether a mapping has a flag, as far as this reading tells. */
static bool reads_flag(unsigned long wanted, const char *flag, char *line, size_t length) {
  FILE *file = fopen("/proc/self/smaps", "re");
  if (!file) bad("smaps: %s", strerror(errno));
  unsigned long start, end;
  bool found = false, has = false;
  while (!has && fgets(line, (int)length, file)) {
    if (sscanf(line, "%lx-%lx ", &start, &end) == 2) found = start <= wanted && wanted < end;
    has = found && strncmp(line, "VmFlags:", 8) == 0 && strstr(line, flag);
    if (found && strncmp(line, "VmFlags:", 8) == 0) break;
  }
  fclose(file);
  return has;
}

/* The file is read in pieces. A process that is dumped between two reads has a file of other pieces when it is restored, in which a mapping or
 * a part of a line is skipped: so it is read again. */
static void expect_flag(const void *at, const char *flag) {
  char line[256] = "";
  for (int i = 0; i < 5; i++)
    if (reads_flag((unsigned long)at, flag, line, sizeof line)) return;
  bad("flag %s is missing in %s", flag, line);
}

static void map_anonymous(void) {
  memory = map(BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  paint(memory);
}

static void look_at_memory(void) { expect_paint(memory); }

/* One mapping cut into four by protection: its first page read-only, its second not accessible, its third runs. */
static void protect(void) {
  map_anonymous();
  memcpy((char *)memory + 2 * PAGE, "\xb8\x2a\x00\x00\x00\xc3", 6); /* mov $42, %eax; ret */
  must(mprotect((char *)memory + PAGE, PAGE, PROT_READ));
  must(mprotect(memory, PAGE, PROT_NONE));
  must(mprotect((char *)memory + 2 * PAGE, PAGE, PROT_READ | PROT_EXEC));
}

/* The kernel reads and writes for us, and answers EFAULT where we would get a signal. */
static void expect_protection(const void *at, bool readable, bool writable) {
  int zero = must(open("/dev/zero", O_RDONLY | O_CLOEXEC)), null = must(open("/dev/null", O_WRONLY | O_CLOEXEC));
  int random = must(memfd_create("probe", MFD_CLOEXEC));
  expect((write(random, at, 1) == 1) == readable);
  expect((read(zero, (char *)at + PAGE - 1, 1) == 1) == writable);
  must(close(zero));
  must(close(null));
  must(close(random));
}

static void look_at_protection(void) {
  char *at = (char *)memory;
  expect_protection(at, false, false);
  expect_protection(at + PAGE, true, false);
  expect_protection(at + 2 * PAGE, true, false);
  expect_protection(at + 5 * PAGE, true, true);
  expect(((int (*)(void))(at + 2 * PAGE))() == 42);
  expect(memory[PAGE / 4 + 1] == number(1, 1));
}

static void advise(void) {
  map_anonymous();
  second = map(4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  must(madvise(memory, BYTES, MADV_DONTFORK));
  must(madvise(memory, BYTES, MADV_DONTDUMP));
  may(madvise(second, 4 << 20, MADV_HUGEPAGE));
  second[0] = 1;
  must(mlock(memory, PAGE));
  must(madvise((char *)second + (2 << 20), 1 << 20, MADV_WIPEONFORK));
}

static void look_at_advice(void) {
  expect_paint(memory);
  expect(second[0] == 1);
  expect_flag(memory, " lo");
  expect_flag((char *)memory + PAGE, " dc");
  expect_flag((char *)memory + PAGE, " dd");
  expect_flag(second, " hg");
  expect_flag((char *)second + (2 << 20), " wf");
}

/* A file mapped privately with pages of our own, and mapped as shared. */
static void map_file(void) {
  const char *path = own_path("mapped");
  fd = must(open(path, O_RDWR | O_CREAT, 0600));
  must(ftruncate(fd, BYTES));
  second = map(BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  paint(second);
  memory = map(BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd);
  memory[0] = 4711;
  memory[PAGE] = 4712;
}

static void look_at_file(void) {
  static uint32_t written;
  expect(memory[0] == 4711 && memory[PAGE] == 4712);
  memory[0] = memory[PAGE] = 0;
  second[PAGE] = number(4, 0);
  memory[PAGE] = number(4, 0);
  expect_paint(memory);
  expect_paint(second);
  memory[0] = 4711;
  memory[PAGE] = 4712;
  written++;
  expect(pwrite(fd, &written, 4, 4) == 4);
  expect(second[1] == written);
  second[1] = 0;
}

/* Memory without a file, shared with a child that answers in it. */
static atomic_uint *shared;

static void answer(void) {
  for (;; rest())
    if (shared[0] != shared[1]) shared[1] = shared[0];
}

static void share_anonymous(void) {
  shared = shared_memory(BYTES + 4 * PAGE);
  paint((uint32_t *)shared + PAGE);
  child(answer);
}

static void ask(void) {
  shared[0]++;
  await(shared[1] == shared[0]);
  for (int word = PAGE; word < 2 * PAGE; word++) {
    int page = (word - PAGE) * 4 / PAGE;
    expect(shared[word] == number(page, (word - PAGE) % (PAGE / 4)));
  }
}

static void share_by_name(void) {
  char name[64];
  snprintf(name, sizeof name, "/zoo-%d", getpid());
  fd = must(shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600));
  must(shm_unlink(name));
  must(ftruncate(fd, BYTES + 4 * PAGE));
  shared = map(BYTES + 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  paint((uint32_t *)shared + PAGE);
  child(answer);
}

static void create_memfd(void) {
  fd = may(memfd_create("zoo", MFD_ALLOW_SEALING | MFD_CLOEXEC));
  must(ftruncate(fd, BYTES));
  memory = map(BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  paint(memory);
  must(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
}

static void look_at_memfd(void) {
  expect_paint(memory);
  expect(fcntl(fd, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_GROW));
  expect(ftruncate(fd, 1) < 0 && errno == EPERM);
  uint32_t word;
  expect(pread(fd, &word, 4, PAGE) == 4 && word == number(1, 0));
}

/* The three of System V, in an IPC namespace of their own: CRIU dumps them with the namespace or not at all. */
static int shm, sem, queue;

static void create_sysv(void) {
  shm = must(shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600));
  sem = must(semget(IPC_PRIVATE, 2, IPC_CREAT | 0600));
  queue = must(msgget(IPC_PRIVATE, IPC_CREAT | 0600));
  memory = shmat(shm, NULL, 0);
  expect(memory != (void *)-1);
  paint(memory);
  must(semctl(sem, 1, SETVAL, 17));
  struct {
    long type;
    char text[8];
  } message = {3, "waiting"};
  must(msgsnd(queue, &message, sizeof message.text, 0));
}

static void look_at_sysv(void) {
  expect_paint(memory);
  expect(semctl(sem, 1, GETVAL) == 17);
  struct msqid_ds state;
  must(msgctl(queue, IPC_STAT, &state));
  expect(state.msg_qnum == 1);
}

static void use_sysv(void) {
  struct {
    long type;
    char text[8];
  } message = {0};
  must(msgrcv(queue, &message, sizeof message.text, 3, IPC_NOWAIT));
  expect(strcmp(message.text, "waiting") == 0);
  must(msgsnd(queue, &message, sizeof message.text, 0));
}

/* A stack that grew, and memory that grows downwards. */
static volatile char *deep, *top;

static void grow_stack(void) {
  volatile char frame[1 << 20];
  frame[0] = 42;
  deep = frame;
  memory = map(PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_STACK, -1);
  memory[0] = 42;
  top = (char *)sbrk(1 << 20) + (1 << 20) - 1;
  *top = 42;
}

static void look_at_stack(void) {
  expect(*deep == 42);
  expect(memory[0] == 42);
  expect(*top == 42);
  expect_flag(memory, " gd");
}

const struct specimen memory_specimens[] = {
    {"memory", "", 0, map_anonymous, look_at_memory, NULL},
    {"protections", "", 0, protect, look_at_protection, NULL},
    {"madvise", "", 0, advise, look_at_advice, NULL},
    {"mapped-file", "", 0, map_file, look_at_file, NULL},
    {"shared-memory", "", 0, share_anonymous, ask, NULL},
    {"posix-shm", "", 0, share_by_name, ask, NULL},
    {"memfd", "", 0, create_memfd, look_at_memfd, NULL},
    {"sysv-ipc", "", CLONE_NEWIPC, create_sysv, look_at_sysv, use_sysv},
    {"stack", "", 0, grow_stack, look_at_stack, NULL},
    {0},
};
