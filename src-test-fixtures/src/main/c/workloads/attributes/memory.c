/* Memory by kind. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attributes.h"

enum { SIZE = 65536 };

static char *map(int flags, int file) {
  char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, flags, file, 0);
  if (memory == MAP_FAILED) impossible("mmap: %s", strerror(errno));
  return memory;
}

/* Memory that parent and child see, and a twin of its counter in private memory: an old one beside a new one is a fault. */
struct shared {
  unsigned count;
  char *memory;
  struct child *child;
};

static void count_up(struct shared *shared) {
  shared->count++;
  memcpy(shared->memory, &shared->count, sizeof shared->count);
}

static void tell_shared(struct shared *shared) {
  unsigned now;
  memcpy(&now, shared->memory, sizeof now);
  tell("shared and private are %s, text %.5s", now == shared->count ? "equal" : "different", shared->memory + 100);
  if (shared->child) ask_child(shared->child);
  /* So that the next report differs from what an image of now has, unless both come back. */
  count_up(shared);
}

static void fill(struct shared *shared) {
  memcpy(shared->memory + 100, "hello", 5);
  count_up(shared);
}

static struct shared anonymous, named, memory_file, system_five, file_shared, huge;

static void tell_from_child(void) {
  unsigned now;
  memcpy(&now, anonymous.memory, sizeof now);
  tell("child sees %s %.5s", now == 0 ? "nothing" : "a count", anonymous.memory + 100);
}

static void share_anonymous(void) {
  anonymous.memory = map(MAP_SHARED | MAP_ANONYMOUS, -1);
  anonymous.child = start_child(NULL, tell_from_child);
  fill(&anonymous);
}

static char *name;

static void share_named(void) {
  if (asprintf(&name, "/gpuprocess-attributes-%d", getpid()) < 0) impossible("no memory");
  int file = may(shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600));
  may(ftruncate(file, SIZE));
  named.memory = map(MAP_SHARED, file);
  close(file);
  fill(&named);
}

static void tell_named(void) {
  tell_shared(&named);
  int file = shm_open(name, O_RDWR, 0);
  tell("name %s", outcome(file));
  if (file < 0) return;
  unsigned now = 0;
  ssize_t length = pread(file, &now, sizeof now, 0);
  tell("file %d", length == sizeof now && now == named.count);
  close(file);
}

static int memory_descriptor;

static void share_memory_file(void) {
  memory_descriptor = may(memfd_create("own", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  may(ftruncate(memory_descriptor, SIZE));
  memory_file.memory = map(MAP_SHARED, memory_descriptor);
  fill(&memory_file);
  may(fcntl(memory_descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
}

static void tell_memory_file(void) {
  tell_shared(&memory_file);
  tell("seals %x", fcntl(memory_descriptor, F_GET_SEALS));
}

static int segment;

static void share_system_five(void) {
  segment = may(shmget(IPC_PRIVATE, SIZE, IPC_CREAT | 0600));
  system_five.memory = shmat(segment, NULL, 0);
  if (system_five.memory == (char *)-1) impossible("shmat: %s", strerror(errno));
  shmctl(segment, IPC_RMID, NULL);
  fill(&system_five);
}

static void tell_system_five(void) { tell_shared(&system_five); }
static void tell_anonymous(void) { tell_shared(&anonymous); }

static void share_file(void) {
  int file = own_file("shared", "");
  may(ftruncate(file, SIZE));
  file_shared.memory = map(MAP_SHARED, file);
  close(file);
  fill(&file_shared);
}

static void tell_file_shared(void) { tell_shared(&file_shared); }

static char *private_file;

static void map_private(void) {
  int file = own_file("mapped", "");
  may(ftruncate(file, SIZE));
  may(pwrite(file, "below", 5, 200));
  private_file = map(MAP_PRIVATE, file);
  close(file);
  memcpy(private_file + 100, "above", 5);
}

static void tell_private_file(void) { tell("text %.5s %.5s", private_file + 100, private_file + 200); }

static char *region;
static void take_region(void) {
  region = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
  memset(region, 7, SIZE);
}

/* The flags of the mapping, as the kernel shows them; without CRIU's soft-dirty bit, and without those of huge pages. */
static void tell_flags(void) {
  FILE *file = fopen("/proc/self/smaps", "re");
  char *line = NULL;
  size_t size = 0;
  bool here = false;
  while (file && getline(&line, &size, file) > 0) {
    unsigned long from, to;
    if (sscanf(line, "%lx-%lx ", &from, &to) == 2) here = (unsigned long)region >= from && (unsigned long)region < to;
    if (!here || strncmp(line, "VmFlags:", 8) != 0) continue;
    char *dirty = strstr(line, " sd");
    if (dirty) memcpy(dirty, "   ", 3);
    line[strcspn(line, "\n")] = 0;
    tell("%s", line);
  }
  free(line);
  if (file) fclose(file);
  tell("byte %d", region[5]);
}

static void lock(void) {
  take_region();
  may(mlock(region, SIZE));
}
static void advise(int advice) {
  take_region();
  may(madvise(region, SIZE, advice));
}
static void not_in_fork(void) { advise(MADV_DONTFORK); }
static void not_in_core(void) { advise(MADV_DONTDUMP); }
static void wipe_on_fork(void) { advise(MADV_WIPEONFORK); }
static void mergeable(void) { advise(MADV_MERGEABLE); }
static void huge_pages(void) { advise(MADV_HUGEPAGE); }
static void sequential(void) { advise(MADV_SEQUENTIAL); }

static void guard(void) {
  take_region();
  may(madvise(region + 4096, 4096, 102 /* MADV_GUARD_INSTALL, Linux 6.13 */));
}

static void tell_guard(void) {
  char byte = 0;
  int ends[2];
  may(pipe(ends));
  tell("guarded %s", outcome(write(ends[1], region + 4096, 1)));
  tell("beside %s", outcome(write(ends[1], region + 8192, 1)));
  ssize_t unused = read(ends[0], &byte, 1);
  (void)unused;
  close(ends[0]);
  close(ends[1]);
}

static void name_region(void) {
  take_region();
  may(prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, region, SIZE, "own name"));
}
static void tell_name(void) {
  FILE *file = fopen("/proc/self/maps", "re");
  char *line = NULL;
  size_t size = 0;
  bool named = false;
  while (file && getline(&line, &size, file) > 0) named = named || strstr(line, "[anon:own name]");
  free(line);
  if (file) fclose(file);
  tell("named %d byte %d", named, region[5]);
}

static void lock_future(void) { may(mlockall(MCL_FUTURE | MCL_ONFAULT)); }
static void tell_future(void) {
  region = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
  tell_flags();
  munmap(region, SIZE);
}

static void map_nothing(void) {
  take_region();
  may(mprotect(region + 4096, 4096, PROT_NONE));
}

/* A mapping that is longer than its file. */
static char *beyond;
static void map_beyond(void) {
  int file = own_file("short", "hello");
  beyond = map(MAP_PRIVATE, file);
  close(file);
  beyond[1] = 'u';
}
static void tell_beyond(void) {
  int ends[2];
  may(pipe(ends));
  tell("text %.5s beyond %s", beyond, outcome(write(ends[1], beyond + 8192, 1)));
  close(ends[0]);
  close(ends[1]);
}

static char *of_deleted;
static void map_deleted(void) {
  int file = own_file("mapped-deleted", "");
  may(ftruncate(file, SIZE));
  may(pwrite(file, "below", 5, 200));
  of_deleted = map(MAP_PRIVATE, file);
  close(file);
  may(unlink(own_path("mapped-deleted")));
  memcpy(of_deleted + 100, "above", 5);
}
static void tell_of_deleted(void) { tell("text %.5s %.5s", of_deleted + 100, of_deleted + 200); }

static const char *read_only;
static void map_read_only(void) {
  int file = own_file("read-only", "");
  may(ftruncate(file, SIZE));
  may(pwrite(file, "hello", 5, 200));
  close(file);
  file = may(open(own_path("read-only"), O_RDONLY | O_CLOEXEC));
  read_only = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, file, 0);
  if (read_only == MAP_FAILED) impossible("mmap: %s", strerror(errno));
  close(file);
}
static void tell_read_only(void) { tell("text %.5s", read_only + 200); }

static void droppable(void) {
  region = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, 8 /* MAP_DROPPABLE, Linux 6.11 */ | MAP_ANONYMOUS, -1, 0);
  if (region == MAP_FAILED) impossible("mmap: %s", strerror(errno));
  memset(region, 7, SIZE);
}

/* Without its content, which the kernel may drop at any time. */
static void tell_droppable(void) {
  memset(region, 7, SIZE);
  tell_flags();
}

static void share_unlinked(void) {
  share_named();
  may(shm_unlink(name));
}

/* Attached twice, and read-only once. */
static const char *again;
static void attach_twice(void) {
  segment = may(shmget(IPC_PRIVATE, SIZE, IPC_CREAT | 0600));
  system_five.memory = shmat(segment, NULL, 0);
  again = shmat(segment, NULL, SHM_RDONLY);
  if (system_five.memory == (char *)-1 || again == (char *)-1) impossible("shmat: %s", strerror(errno));
  shmctl(segment, IPC_RMID, NULL);
  fill(&system_five);
}
static void tell_twice(void) {
  tell_shared(&system_five);
  tell("again %.5s", again + 100);
}

static int unmapped;
static void open_memory_file(void) {
  unmapped = may(memfd_create("unmapped", MFD_ALLOW_SEALING));
  may(write(unmapped, "hello", 5));
  may(fcntl(unmapped, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL));
}
static void tell_unmapped(void) {
  char text[8] = "";
  tell("text %s %s", outcome(pread(unmapped, text, 5, 0)), text);
  tell("seals %x write %s", fcntl(unmapped, F_GET_SEALS), outcome(pwrite(unmapped, "x", 1, 0)));
}

static void grow_down(void) {
  region = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_STACK, -1, 0);
  if (region == MAP_FAILED) impossible("mmap: %s", strerror(errno));
  memset(region, 7, SIZE);
}

static void share_huge(void) {
  huge.memory = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (huge.memory == MAP_FAILED) impossible("no huge pages");
  fill(&huge);
}

static void tell_huge(void) { tell_shared(&huge); }

static void protect_by_key(void) {
  take_region();
  int key = may(pkey_alloc(0, 0));
  may(pkey_mprotect(region, SIZE, PROT_READ | PROT_WRITE, key));
}

/* A buffer that userfaultfd handles: CRIU refuses it, or takes it only when nothing is registered. */
static void fault_handler(void) { may(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK)); }

static void secret(void) {
  int file = may(syscall(SYS_memfd_secret, 0));
  may(ftruncate(file, SIZE));
  huge.memory = map(MAP_SHARED, file);
  close(file);
  fill(&huge);
}

const struct attribute memory_attributes[] = {
    {"shm-anonymous", EARLY, share_anonymous, tell_anonymous},
    {"shm-named", EARLY, share_named, tell_named},
    {"shm-memfd", EARLY, share_memory_file, tell_memory_file},
    {"shm-sysv", EARLY, share_system_five, tell_system_five},
    {"shm-file", EARLY, share_file, tell_file_shared},
    {"map-private", EARLY, map_private, tell_private_file},
    {"mlock", EARLY, lock, tell_flags},
    {"map-dontfork", EARLY, not_in_fork, tell_flags},
    {"map-dontdump", EARLY, not_in_core, tell_flags},
    {"map-wipeonfork", EARLY, wipe_on_fork, tell_flags},
    {"map-mergeable", EARLY, mergeable, tell_flags},
    {"map-hugepage", EARLY, huge_pages, tell_flags},
    {"map-sequential", EARLY, sequential, tell_flags},
    {"map-growsdown", EARLY, grow_down, tell_flags},
    {"map-guard", EARLY, guard, tell_guard},
    {"map-name", EARLY, name_region, tell_name},
    {"map-none", EARLY, map_nothing, tell_flags},
    {"map-beyond", EARLY, map_beyond, tell_beyond},
    {"map-deleted", EARLY, map_deleted, tell_of_deleted},
    {"map-read-only", EARLY, map_read_only, tell_read_only},
    {"map-droppable", EARLY, droppable, tell_droppable},
    {"mlock-future", LATE, lock_future, tell_future},
    {"shm-unlinked", EARLY, share_unlinked, tell_named},
    {"shm-sysv-twice", EARLY, attach_twice, tell_twice},
    {"memfd-sealed", EARLY, open_memory_file, tell_unmapped},
    {"map-hugetlb", EARLY, share_huge, tell_huge},
    {"map-pkey", EARLY, protect_by_key, tell_flags},
    {"memfd-secret", EARLY, secret, tell_huge},
    {"userfaultfd", EARLY, fault_handler, NULL},
    {0},
};
