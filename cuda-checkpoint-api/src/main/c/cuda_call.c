/* LIBRARY JOB-FILE FUNCTION PID TIMEOUT PAIRS
 * Makes one call of a checkpoint function of the CUDA driver LIBRARY, in an environment where CUDA_CHECKPOINT_JOB_FILE names
 * JOB-FILE. TIMEOUT is that of a lock in milliseconds; PAIRS are the GPU pairs of a restore, 32 bytes each, in hexadecimal
 * digits. Descriptor 0 is a SEQPACKET socket to the JVM that started it, to which it sends a struct answer. It exits with
 * the thread of the JVM that waits for the answer, as a call within the JVM would end. */
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

enum { SOCKET = 0, MOST_PAIRS = 64, PAIR = 32 };
enum kind { ANSWERED = 1, NO_LIBRARY = 2, NO_FUNCTION = 3, BAD_ARGUMENTS = 4 };

struct answer {
  int32_t kind, result, value;
};

/* Every argument struct of these functions is 64 bytes long; reserved bytes are zero. */
union arguments {
  unsigned char bytes[64];
  uint32_t timeout;
  struct {
    const unsigned char *pairs;
    uint32_t count;
  } restore;
};

static int tell(enum kind kind, int result, int value) {
  struct answer answer = {kind, result, value};
  return send(SOCKET, &answer, sizeof answer, MSG_NOSIGNAL) == sizeof answer ? 0 : 1;
}

/* Returns the number of pairs, or -1. */
static int read_pairs(const char *text, unsigned char *into) {
  size_t digits = strlen(text);
  if (digits % (2 * PAIR) != 0 || digits / (2 * PAIR) > MOST_PAIRS) return -1;
  for (size_t each = 0; each < digits / 2; each++) {
    unsigned byte;
    if (sscanf(text + 2 * each, "%2x", &byte) != 1) return -1;
    into[each] = (unsigned char)byte;
  }
  return (int)(digits / (2 * PAIR));
}

int main(int argc, char **argv) {
  static unsigned char pairs[MOST_PAIRS * PAIR];
  union arguments arguments = {{0}};
  struct pollfd jvm = {SOCKET, POLLHUP, 0};
  /* The JVM may have exited before the prctl. */
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || poll(&jvm, 1, 0) != 0) return 1;
  int count = argc == 7 ? read_pairs(argv[6], pairs) : -1;
  if (count < 0 || setenv("CUDA_CHECKPOINT_JOB_FILE", argv[2], 1) != 0) return tell(BAD_ARGUMENTS, 0, 0);
  void *library = dlopen(argv[1], RTLD_NOW);
  if (library == NULL) return tell(NO_LIBRARY, 0, 0);
  void *found = dlsym(library, argv[3]);
  if (found == NULL) return tell(NO_FUNCTION, 0, 0);
  int (*function)(int, void *);
  memcpy(&function, &found, sizeof function);
  int pid = atoi(argv[4]), value = 0;
  void *argument = NULL;
  if (strstr(argv[3], "ProcessGet") != NULL) {
    argument = &value;
  } else if (strstr(argv[3], "ProcessLock") != NULL) {
    arguments.timeout = (uint32_t)strtoul(argv[5], NULL, 10);
    argument = &arguments;
  } else if (count > 0) {
    arguments.restore.pairs = pairs;
    arguments.restore.count = (uint32_t)count;
    argument = &arguments;
  }
  int result = function(pid, argument);
  return tell(ANSWERED, result, value);
}
