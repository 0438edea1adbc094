/* Faults, from DIR/faults (read again on every call) and from LIBCUDA_SIM_FAULTS (a process's own, read once).
 *
 * One rule a line (or, in the variable, between semicolons); # starts a comment:
 *
 *   FUNCTION [pid=P] [call=N | call=N-M | call=N+] [before|during|after] [hang=MS | hang=forever] [answer=R] [kill]
 *
 *   FUNCTION  as exported: cuCheckpointProcessLock, cuMemAlloc_v2, nvmlInit_v2, ...; * is all six cuCheckpoint...
 *   pid       the process that the call is about: the target of a cuCheckpoint function, else the caller
 *   call      which of the matching calls since the rule was written; every one if not said
 *   before    (the default) nothing has happened yet: answer=R is all the call does
 *   after     it has happened; answer=R lies about it
 *   during    inside the target, for the six: a checkpoint or restore has moved half of the bytes, and an answer
 *             leaves the process FAILED; a hang there holds up everybody's calls on that process
 *   hang      first wait so long; `forever` is until the file `faults` changes, so a test can let it go on
 *   kill      SIGKILL to that pid
 *
 * The first rule that hits is the one that acts; every rule counts the calls it matches. Counts of the file's rules
 * are kept in state/faults.counts, shared by all processes, and start at zero when the file is replaced. */
#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_RULES 64
#define MAX_TEXT 8192

struct counts {
  struct version version; /* of the file that they belong to */
  uint64_t of_rule[MAX_RULES];
};

static pthread_mutex_t own_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct counts own_counts;

static bool matches_function(const char *pattern, const char *function) {
  if (strcmp(pattern, "*") == 0) return strncmp(function, "cuCheckpoint", 12) == 0;
  return strcmp(pattern, function) == 0;
}

static bool matches_call(const char *range, uint64_t call) {
  char *end;
  uint64_t first = strtoull(range, &end, 10);
  if (*end == '+') return call >= first;
  if (*end == '-') return call >= first && call <= strtoull(end + 1, NULL, 10);
  return call == first;
}

/* Reads one rule; true if it acts on this call. *count is the rule's own. */
static bool read_rule(char *line, const char *function, int pid, uint64_t *count, struct fault *fault) {
  char *rest = line, *word = strtok_r(rest, " \t\r", &rest);
  const char *range = NULL;
  if (word == NULL || *word == '#' || !matches_function(word, function)) return false;
  *fault = (struct fault){.pid = pid};
  while ((word = strtok_r(NULL, " \t\r", &rest)) != NULL && *word != '#') {
    if (strncmp(word, "pid=", 4) == 0) {
      if (atoi(word + 4) != pid) return false;
    } else if (strncmp(word, "call=", 5) == 0) range = word + 5;
    else if (strcmp(word, "before") == 0) fault->moment = FAULT_BEFORE;
    else if (strcmp(word, "during") == 0) fault->moment = FAULT_DURING;
    else if (strcmp(word, "after") == 0) fault->moment = FAULT_AFTER;
    else if (strcmp(word, "hang=forever") == 0) fault->hang_ms = -1;
    else if (strncmp(word, "hang=", 5) == 0) fault->hang_ms = atoll(word + 5);
    else if (strcmp(word, "kill") == 0) fault->kills = true;
    else if (strncmp(word, "answer=", 7) == 0) {
      fault->answers = true;
      fault->answer = atoi(word + 7);
    } else {
      fprintf(stderr, "libcuda-sim: unknown word in fault rule: %s\n", word);
      abort(); /* a test with a misspelt fault must not pass */
    }
  }
  ++*count;
  fault->hit = range == NULL || matches_call(range, *count);
  return fault->hit;
}

static struct fault read_rules(char *text, const char *separators, const char *function, int pid,
                               struct counts *counts) {
  struct fault found = {0};
  char *rest = text, *line;
  for (int i = 0; i < MAX_RULES && (line = strsep(&rest, separators)) != NULL; i++) {
    struct fault fault;
    if (read_rule(line, function, pid, &counts->of_rule[i], &fault) && !found.hit) found = fault;
  }
  return found;
}

/* Calls without a rule do not open the file of the counts: a process that is checked before its dump must not hold a lock
 * that no real process has. */
static bool has_rule_for(const char *text, const char *function, int pid) {
  char copy[MAX_TEXT];
  struct counts matched = {0};
  static const struct counts none = {0};
  strcpy(copy, text);
  read_rules(copy, "\n", function, pid, &matched);
  return memcmp(matched.of_rule, none.of_rule, sizeof none.of_rule) != 0;
}

static int open_faults(struct version *version) {
  char path[PATH_MAX];
  struct stat status;
  machine();
  machine_path(path, "faults");
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  *version = (struct version){0};
  if (fd >= 0 && fstat(fd, &status) == 0)
    *version = (struct version){status.st_ino, status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_size};
  return fd;
}

static struct fault from_file(const char *function, int pid) {
  struct fault fault = {0};
  struct version version;
  char text[MAX_TEXT];
  int fd = open_faults(&version);
  if (fd < 0) return fault;
  ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  text[length > 0 ? length : 0] = '\0';
  fault.version = version;
  if (!has_rule_for(text, function, pid)) return fault;
  int counts_fd = machine_open("state/faults.counts");
  if (counts_fd < 0) return (struct fault){0};
  TEMP_FAILURE_RETRY(flock(counts_fd, LOCK_EX));
  struct counts counts;
  if (pread(counts_fd, &counts, sizeof counts, 0) != sizeof counts
      || memcmp(&counts.version, &version, sizeof version) != 0)
    counts = (struct counts){.version = version};
  fault = read_rules(text, "\n", function, pid, &counts);
  fault.version = version;
  (void)!pwrite(counts_fd, &counts, sizeof counts, 0);
  close(counts_fd);
  return fault;
}

struct fault fault_of(const char *function, int pid) {
  struct fault fault = from_file(function, pid);
  const char *own = getenv("LIBCUDA_SIM_FAULTS");
  if (fault.hit || own == NULL) return fault;
  char text[MAX_TEXT];
  snprintf(text, sizeof text, "%s", own);
  pthread_mutex_lock(&own_mutex);
  struct version version = fault.version;
  fault = read_rules(text, ";\n", function, pid, &own_counts);
  fault.version = version;
  pthread_mutex_unlock(&own_mutex);
  return fault;
}

static void sleep_ms(int64_t ms) {
  struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  while (clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &time) == EINTR) continue;
}

static void hang(const struct fault *fault) {
  if (fault->hang_ms >= 0) {
    sleep_ms(fault->hang_ms);
    return;
  }
  struct version now;
  do {
    sleep_ms(5);
    int fd = open_faults(&now);
    if (fd >= 0) close(fd);
  } while (memcmp(&fault->version, &now, sizeof now) == 0);
}

bool fault_happens(const struct fault *fault) {
  if (fault->hang_ms != 0) hang(fault);
  if (fault->kills && fault->pid > 1) kill(fault->pid, SIGKILL);
  return fault->answers;
}
