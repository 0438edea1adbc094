/* Open files, their names, and locks on them. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zoo.h"

static int fd, other;
static char *path;
static atomic_int *question, *result;

static int create(const char *name) { return must(open(name, O_RDWR | O_CREAT | O_EXCL, 0640)); }

/* Parent and child share one open file, and so its position; a second descriptor appends. */
static void read_when_asked(void) {
  for (;; rest()) {
    if (*question == 0) continue;
    char byte = 0;
    *result = read(fd, &byte, 1) == 1 ? byte : -1;
    *question = 0;
  }
}

static void share_position(void) {
  question = shared_memory(4096);
  result = question + 1;
  path = own_path("shared");
  fd = create(path);
  for (int i = 0; i < 256; i++) expect(write(fd, &(char){(char)(i & 127)}, 1) == 1);
  must(lseek(fd, 0, SEEK_SET));
  other = must(open(path, O_WRONLY | O_APPEND | O_NOATIME));
  child(read_when_asked);
}

static void move_position(void) {
  off_t at = must(lseek(fd, 0, SEEK_CUR));
  if (at >= 254) {
    must(lseek(fd, 0, SEEK_SET));
    at = 0;
  }
  *question = 1;
  await(*question == 0);
  expect(*result == (at & 127));
  expect(lseek(fd, 0, SEEK_CUR) == at + 1);
  expect((fcntl(other, F_GETFL) & (O_APPEND | O_NOATIME)) == (O_APPEND | O_NOATIME));
}

/* The file is small and goes into the image. */
static void delete_file(void) {
  path = own_path("deleted");
  fd = create(path);
  expect(write(fd, "ghost", 5) == 5);
  other = must(open(path, O_RDONLY));
  must(unlink(path));
}

static void read_deleted(void) {
  static int writes;
  char text[6] = "";
  expect(pread(other, text, 5, 0) == 5 && strcmp(text, "ghost") == 0);
  struct stat state;
  must(fstat(fd, &state));
  expect(state.st_nlink == 0 && (state.st_mode & 0777) == 0640);
  writes++;
  expect(pwrite(fd, &writes, sizeof writes, 8) == sizeof writes);
  int back = 0;
  expect(pread(other, &back, sizeof back, 8) == sizeof back && back == writes);
}

/* The name is gone and another is left: only a temporary link can lead to it. */
static void delete_one_name(void) {
  char *second = own_path("second-name");
  delete_file();
  must(close(other));
  must(close(fd));
  fd = create(path);
  must(link(path, second));
  expect(write(fd, "ghost", 5) == 5);
  must(unlink(path));
}

static void read_linked(void) {
  char text[6] = "";
  struct stat state;
  expect(pread(fd, text, 5, 0) == 5 && strcmp(text, "ghost") == 0);
  must(fstat(fd, &state));
  expect(state.st_nlink >= 1);
}

/* A directory that is open, and one that is deleted and the working directory of a child. */
static void child_stays_in_deleted(void) {
  must(chdir(path));
  must(rmdir(path));
  *question = 1;
  for (;; rest()) {
    struct stat state;
    must(stat(".", &state));
    expect(S_ISDIR(state.st_mode) && open("x", O_CREAT | O_WRONLY, 0600) < 0);
    (*result)++;
  }
}

static void open_directories(void) {
  question = shared_memory(4096);
  result = question + 1;
  path = own_path("directory");
  must(mkdir(path, 0700));
  fd = must(open(path, O_RDONLY | O_DIRECTORY));
  must(close(must(openat(fd, "f", O_CREAT | O_WRONLY, 0600))));
  other = must(open(path, O_PATH));
  path = own_path("deleted-directory");
  must(mkdir(path, 0700));
  child(child_stays_in_deleted);
  await(*question == 1);
}

static void look_at_directories(void) {
  static int before;
  expect(faccessat(fd, "f", F_OK, 0) == 0);
  expect(faccessat(other, "f", F_OK, 0) == 0);
  expect(fcntl(other, F_GETFL) & O_PATH);
  await(*result > before);
  before = *result;
}

/* A process of the tree that does not get a lock that others hold. */
static void try_locks(void) {
  int own = must(open(path, O_RDWR));
  for (;; rest()) {
    if (*question == 0) continue;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
    *result = flock(own, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK ? 1 : 0;
    *result += fcntl(own, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK ? 2 : 0;
    *question = 0;
  }
}

static void lock(int command, short type) {
  struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
  must(fcntl(fd, command, &range));
}

static void lock_file(int command) {
  question = shared_memory(4096);
  result = question + 1;
  path = own_path("locked");
  fd = create(path);
  must(flock(fd, LOCK_SH));
  lock(command, F_WRLCK);
  child(try_locks);
}

static void lock_process(void) { lock_file(F_SETLK); }
static void lock_description(void) { lock_file(F_OFD_SETLK); }

static void still_locked(void) {
  *question = 1;
  await(*question == 0);
  if (*result != 3) bad("of flock (1) and range (2) only %d is held", *result);
}

static void take_lease(void) {
  path = own_path("leased");
  must(close(create(path)));
  fd = must(open(path, O_RDONLY));
  must(fcntl(fd, F_SETLEASE, F_RDLCK));
}

static void still_leased(void) { expect(fcntl(fd, F_GETLEASE) == F_RDLCK); }

const struct specimen file_specimens[] = {
    {"shared-position", "", 0, share_position, move_position, NULL},
    {"deleted-file", "", 0, delete_file, read_deleted, NULL},
    {"deleted-name", "links", 0, delete_one_name, read_linked, NULL},
    {"directories", "", 0, open_directories, look_at_directories, NULL},
    {"process-locks", "locks", 0, lock_process, still_locked, NULL},
    {"description-locks", "locks", 0, lock_description, still_locked, NULL},
    {"lease", "locks", 0, take_lease, still_leased, NULL},
    {0},
};
