/* guard PID START yes|no ENTRY
 * Ends a job, or releases it, when the JVM that has started it exits or crashes. That JVM starts the guard. The guard has
 * another session than the job, and its descriptor 3 is a pidfd of the job's root PID, which started at tick START.
 * Descriptor 0 is a SEQPACKET socket to the JVM, with messages of one byte:
 *   sent       r ready
 *   received   t   SIGTERM to every process of the job
 *              k   SIGKILL, until no process is left
 *              end of file   the JVM has exited, or releases the job: the same as k if the argument is yes; otherwise
 *                            the guard stays until the root has ended
 *              l   release the job: exit
 * If the argument is no, ENTRY is not in the journal: the guard writes how the root has ended there, as wait(2) returns
 * it, in decimal. The kernel tells that to the owner of a pidfd since Linux 6.15, after the root was reaped.
 * After an exit of the JVM, a guard with yes removes the file ENTRY, the job's entry in the journal, once the job has ended.
 * The guard exits when all processes of the job have ended: the root, its descendants, and the processes in the sessions
 * of these. A pid is not an identity: each process is signalled by a pidfd, after a check that the pidfd is of the process
 * that was found. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "job.h"

enum { CONTROL = 0, ROOT = 3 };
enum { ROUND_MS = 100, LONGEST_KILL_S = 600, LONGEST_REAP_S = 10 };
enum { INFO_EXIT = 1 << 3 };

/* struct pidfd_info of Linux 6.15 */
struct pidfd_exit {
  uint64_t mask, cgroup;
  uint32_t ids[11];
  int32_t status;
};

struct process {
  int pid, parent, session;
  unsigned long long start;
  bool alive, member;
};

struct session {
  int id;
  unsigned long long start; /* of its leader; 0 if unknown */
};

struct seen {
  int pid;
  unsigned long long start;
};

static struct process *found;
static size_t processes, room;
static struct seen *members; /* of the scan before */
static size_t last_members, members_room;
static bool watched; /* since the scan before, so that no session has ended and its id belongs to another one */
static struct session *sessions;
static size_t known, known_room;
static int root_pid;
static const char *entry;
static bool orphaned;
static unsigned long long root_start;

static void *larger(void *block, size_t *room_of, size_t each) {
  *room_of = *room_of == 0 ? 256 : *room_of * 2;
  block = realloc(block, *room_of * each);
  if (block == NULL) exit(3);
  return block;
}

/* A process whose first thread has ended is a zombie with other threads. */
static bool read_process(int pid, struct process *into) {
  char path[64], text[1024], state;
  long threads;
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return false;
  text[length] = 0;
  const char *after = strrchr(text, ')');
  *into = (struct process){.pid = pid};
  if (after == NULL ||
      sscanf(after + 1, " %c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu", &state,
             &into->parent, &into->session, &threads, &into->start) != 5)
    return false;
  into->alive = (state != 'Z' && state != 'X' && state != 'x') || threads > 1;
  return true;
}

static struct process *of_pid(int pid) {
  for (size_t each = 0; each < processes; each++)
    if (found[each].pid == pid) return &found[each];
  return NULL;
}

static void add_session(int id, unsigned long long start) {
  for (size_t each = 0; each < known; each++)
    if (sessions[each].id == id) return;
  if (known == known_room) sessions = larger(sessions, &known_room, sizeof *sessions);
  sessions[known++] = (struct session){id, start};
}

static bool was_member(const struct process *one) {
  for (size_t each = 0; each < last_members; each++)
    if (members[each].pid == one->pid && members[each].start == one->start) return true;
  return false;
}

/* Whether a process is in a session, and was a member before if the session was not watched. */
static bool goes_on(int session, bool was_watched) {
  for (size_t each = 0; each < processes; each++)
    if (found[each].session == session && (was_watched || was_member(&found[each]))) return true;
  return false;
}

/* The id of a session is in use while a process is in the session. If no process is in it, or its leader is another one
 * than before, the old session has ended, and the id may belong to another one, such as that of the restored job. Without
 * its leader it goes on if a member of before is in it, and also if it has been watched: it may have new members only. The
 * root's own session is watched from the beginning. */
static void forget_old_sessions(void) {
  size_t kept = 0;
  for (size_t each = 0; each < known; each++) {
    int id = sessions[each].id;
    const struct process *leader = of_pid(id);
    bool same = leader != NULL ? leader->start == sessions[each].start : goes_on(id, watched || id == root_pid);
    if (same) sessions[kept++] = sessions[each];
  }
  known = kept;
}

static void remember_members(void) {
  last_members = 0;
  for (size_t each = 0; each < processes; each++) {
    if (!found[each].member) continue;
    if (last_members == members_room) members = larger(members, &members_room, sizeof *members);
    members[last_members++] = (struct seen){found[each].pid, found[each].start};
  }
}

static bool in_known_session(int id) {
  for (size_t each = 0; each < known; each++)
    if (sessions[each].id == id) return true;
  return false;
}

/* Finds the living members, and returns how many there are. */
static size_t find_members(void) {
  processes = 0;
  DIR *proc;
  while ((proc = opendir("/proc")) == NULL) poll(NULL, 0, ROUND_MS); /* no descriptor or memory is free now */
  const struct dirent *one;
  while ((one = readdir(proc)) != NULL) {
    if (!isdigit((unsigned char)one->d_name[0])) continue;
    if (processes == room) found = larger(found, &room, sizeof *found);
    if (read_process(atoi(one->d_name), &found[processes])) processes++;
  }
  closedir(proc);
  forget_old_sessions();
  size_t count = 0;
  for (bool more = true; more;) {
    more = false;
    for (size_t each = 0; each < processes; each++) {
      struct process *one = &found[each];
      if (one->member) continue;
      const struct process *parent = of_pid(one->parent);
      if ((one->pid == root_pid && one->start == root_start) || in_known_session(one->session) ||
          (parent != NULL && parent->member)) {
        one->member = more = true;
        if (one->session == one->pid) add_session(one->pid, one->start);
        if (one->alive) count++;
      }
    }
  }
  remember_members();
  return count;
}

/* Returns a pidfd of a process that was found, or -1 if the process has ended. */
static int hold(const struct process *one) {
  struct process now;
  int descriptor = (int)syscall(SYS_pidfd_open, one->pid, 0);
  if (descriptor < 0) return -1;
  if (read_process(one->pid, &now) && now.start == one->start) return descriptor;
  close(descriptor);
  return -1;
}

static void signal_all(int number) {
  for (size_t each = 0; each < processes; each++) {
    if (!found[each].member || !found[each].alive) continue;
    int descriptor = hold(&found[each]);
    if (descriptor < 0) continue;
    siginfo_t info = {.si_signo = number, .si_code = SI_QUEUE};
    info.si_value.sival_int = TO_EVERYONE; /* tells the root not to forward the signal */
    syscall(SYS_pidfd_send_signal, descriptor, number, &info, 0);
    close(descriptor);
  }
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void kill_all(void) {
  double end = now() + LONGEST_KILL_S;
  size_t left;
  while ((left = find_members()) > 0 && now() < end) {
    watched = true;
    signal_all(SIGKILL);
    struct pollfd root = {ROOT, POLLIN, 0};
    bool gone = poll(&root, 1, ROUND_MS) > 0;
    if (gone && find_members() > 0) poll(NULL, 0, ROUND_MS / 10);
  }
  if (left == 0 && orphaned) unlink(entry);
  exit(left == 0 ? 0 : 4);
}

/* Opens pidfds of all living members, after the first entry; as many as possible. */
static size_t watch(struct pollfd **polled, size_t *polled_room) {
  size_t count = 1;
  for (size_t each = 0; each < processes; each++) {
    if (!found[each].member || !found[each].alive) continue;
    while (count >= *polled_room) *polled = larger(*polled, polled_room, sizeof **polled);
    int descriptor = hold(&found[each]);
    if (descriptor >= 0) (*polled)[count++] = (struct pollfd){descriptor, POLLIN, 0};
  }
  return count;
}

static void record_exit(void) {
  struct pidfd_exit info = {0};
  for (int rounds = LONGEST_REAP_S * 1000 / ROUND_MS; rounds > 0; rounds--) {
    info = (struct pidfd_exit){.mask = INFO_EXIT};
    if (ioctl(ROOT, _IOWR(0xFF, 11, struct pidfd_exit), &info) != 0) return; /* before Linux 6.15 */
    if (info.mask & INFO_EXIT) break;
    poll(NULL, 0, ROUND_MS);
  }
  char partial[4096];
  int length = snprintf(partial, sizeof partial, "%s.partial", entry);
  if (!(info.mask & INFO_EXIT) || length < 0 || (size_t)length >= sizeof partial) return;
  int file = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return;
  bool written = dprintf(file, "%d\n", info.status) > 0 && fsync(file) == 0;
  close(file);
  if (!written || rename(partial, entry) != 0) unlink(partial);
}

/* Returns false if the JVM has exited and the job goes on. */
static bool receive_order(bool ends_with_jvm) {
  char order;
  ssize_t got;
  do got = recv(CONTROL, &order, 1, 0);
  while (got < 0 && errno == EINTR);
  orphaned = got <= 0;
  if (orphaned && !ends_with_jvm) return false;
  if (orphaned) order = 'k';
  if (order == 'l') exit(0);
  if (order == 'k') kill_all();
  if (order == 't' && find_members() > 0) signal_all(SIGTERM);
  return true;
}

int guard_job(int argc, char **argv) {
  if (argc != 4) return 2;
  if (chdir("/") != 0) return 3; /* keeps no directory of the JVM in use */
  /* A scheduler sends these to the JVM, the job and the guard alike; the guard has to outlive the JVM. */
  static const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
  for (size_t each = 0; each < sizeof ignored / sizeof *ignored; each++) signal(ignored[each], SIG_IGN);
  root_pid = atoi(argv[0]);
  root_start = strtoull(argv[1], NULL, 10);
  bool ends_with_jvm = strcmp(argv[2], "yes") == 0;
  entry = argv[3];
  add_session(root_pid, root_start);
  size_t polled_room = 0;
  struct pollfd *polled = larger(NULL, &polled_room, sizeof *polled);
  if (send(CONTROL, "r", 1, MSG_NOSIGNAL) != 1) return 3;
  struct pollfd both[] = {{CONTROL, POLLIN, 0}, {ROOT, POLLIN, 0}};
  while (both[1].revents == 0) {
    int seen = poll(both, 2, -1);
    if (seen < 0 && errno == EINTR) continue; /* revents are unchanged */
    if (seen < 0) return 3;
    if (both[0].revents != 0 && !receive_order(ends_with_jvm)) both[0].fd = -1;
  }
  if (!ends_with_jvm) record_exit();
  if (orphaned) return 0;
  /* The root has ended. The rest of the job may start more processes, which are found when one of these ends. */
  while (find_members() > 0) {
    watched = true;
    size_t count = watch(&polled, &polled_room);
    polled[0] = (struct pollfd){CONTROL, POLLIN, 0};
    int seen = poll(polled, count, count == 1 ? ROUND_MS : -1);
    bool order = seen > 0 && polled[0].revents != 0;
    for (size_t each = 1; each < count; each++) close(polled[each].fd);
    if (order && !receive_order(ends_with_jvm)) return 0;
  }
  return 0;
}
