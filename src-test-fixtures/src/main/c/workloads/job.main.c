/* A tree: a launcher without CUDA that answers, MEMBERS processes with CUDA, by turns on one of GPUS GPUs, and LOADERS
 * processes without, that send numbered messages to the members and wait for each to come back: every other one
 * through pipes, the others through a socket. A member adds one on its GPU for each message, and one now and then by
 * itself; each number must arrive exactly once.
 *   status       "ok RECEIVED ADDED": messages that went to and fro, and numbers added on GPUs; or "bad WHAT"
 *   member I     the pid of the member
 *   loader I     the pid of the loader
 *   verify I     the member looks at all of its GPU memory, --mib N MiB: "ok N bytes", or "bad at OFFSET"
 *   spin I MS    the member keeps its GPU busy that long, and answers at once
 *   end I        ends the member
 *   spawn        starts another member, without loaders, and answers its number
 *   child        the same as the child of a process that the launcher starts
 *   leave        ends that process, so that the member leaves the tree
 *   stop, go     stops the first loader, and lets it go on */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "cuda.h"
#include "kernels.h"
#include "pattern.h"
#include "udp.h"

#define MOST 32
#define FIRST_NUMBER 100
#define PATIENCE_MS 60000

struct member {
  atomic_int pid, asked, answered;
  atomic_ulong added;
  char request[ANSWER_SIZE], reply[ANSWER_SIZE];
};

/* Seen by all. */
struct board {
  atomic_int wrong;
  char what[ANSWER_SIZE];
  atomic_ulong sent[MOST], returned[MOST];
  atomic_int loader[MOST];
  struct member member[MOST];
};

struct channel {
  int to_member[2], to_loader[2]; /* a socket has both ways in one descriptor */
};

static struct board *board;
static struct options settings;
static struct channel channels[MOST];
static pid_t launcher, between;
static int members, open_channels;
static CUdeviceptr value;
static CUfunction increment, spin;
static unsigned long added;

static void wrong(const char *format, ...) {
  int none = 0;
  if (!atomic_compare_exchange_strong(&board->wrong, &none, 1)) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(board->what, sizeof board->what, format, arguments);
  va_end(arguments);
  atomic_store(&board->wrong, 2);
}

static void milliseconds(long count) {
  struct timespec time = {.tv_sec = count / 1000, .tv_nsec = count % 1000 * 1000000};
  nanosleep(&time, NULL);
}

/* Nothing of the place where it was started is needed from now on. */
static void settle(void) {
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) exit(4);
  dup2(null, STDERR_FILENO);
  close(null);
  if (chdir("/") != 0) exit(4);
}

static int transfer(int fd, uint64_t *number, int writes) {
  size_t done = 0;
  while (done < sizeof *number) {
    char *at = (char *)number + done;
    ssize_t size = writes ? write(fd, at, sizeof *number - done) : read(fd, at, sizeof *number - done);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return 0;
    done += (size_t)size;
  }
  return 1;
}

static void open_channel(int loader) {
  struct channel *channel = &channels[loader];
  int pair[2];
  if (loader % 2 == 0) {
    if (pipe2(channel->to_member, O_CLOEXEC) != 0 || pipe2(channel->to_loader, O_CLOEXEC) != 0) exit(4);
    return;
  }
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) exit(4);
  channel->to_member[0] = channel->to_loader[1] = pair[0];
  channel->to_member[1] = channel->to_loader[0] = pair[1];
}

/* Closes the ends of all channels but the loader's of one and the member's of some. */
static void keep(int loader, int member) {
  for (int i = 0; i < open_channels; i++) {
    struct channel *channel = &channels[i];
    if (i != loader) {
      close(channel->to_member[1]);
      if (i % 2 == 0) close(channel->to_loader[0]);
    }
    if (member < 0 || i % settings.members != member) {
      close(channel->to_member[0]);
      if (i % 2 == 0) close(channel->to_loader[1]);
    }
  }
}

static void load(int loader) {
  struct channel *channel = &channels[loader];
  keep(loader, -1);
  settle();
  for (uint64_t next = 1;; next++) {
    uint64_t number = next;
    atomic_store(&board->sent[loader], next);
    if (!transfer(channel->to_member[1], &number, 1) || !transfer(channel->to_loader[0], &number, 0)) exit(0);
    if (number != next) wrong("loader %d got %lu back for %lu", loader, (unsigned long)number, (unsigned long)next);
    atomic_store(&board->returned[loader], next);
    milliseconds(1);
  }
}

static CUresult launch(CUfunction function, void *argument) {
  void *arguments[] = {argument};
  return cuda.launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL);
}

static void add(int which) {
  uint32_t number = 0;
  CUresult result = launch(increment, &value);
  if (result == CUDA_SUCCESS) result = cuda.to_host(&number, value, sizeof number);
  if (result != CUDA_SUCCESS) wrong("member %d: the GPU answers %d", which, (int)result);
  else if (number != FIRST_NUMBER + ++added) wrong("member %d has %u and not %lu", which, number, FIRST_NUMBER + added);
  atomic_store(&board->member[which].added, added);
}

static void obey(int which) {
  struct member *self = &board->member[which];
  int asked = atomic_load(&self->asked);
  if (asked == atomic_load(&self->answered)) return;
  strcpy(self->reply, "ok");
  if (strncmp(self->request, "spin ", 5) == 0) {
    uint64_t nanoseconds = strtoull(self->request + 5, NULL, 10) * 1000000ull;
    if (launch(spin, &nanoseconds) != CUDA_SUCCESS) strcpy(self->reply, "error");
  } else if (!pattern_answer(self->request, self->reply)) {
    strcpy(self->reply, "error");
  }
  atomic_store(&self->answered, asked);
}

static void start_cuda(int which) {
  const uint32_t first = FIRST_NUMBER;
  CUmodule module;
  cuda_start(settings.gpus > 0 ? which % settings.gpus : 0);
  cuda_must(cuda.module_load(&module, ptx), "cuModuleLoadData");
  cuda_must(cuda.module_function(&increment, module, "increment"), "cuModuleGetFunction increment");
  cuda_must(cuda.module_function(&spin, module, "spin"), "cuModuleGetFunction spin");
  cuda_must(cuda.alloc(&value, sizeof first), "cuMemAlloc");
  cuda_must(cuda.to_device(value, &first, sizeof first), "cuMemcpyHtoD");
  pattern_start(settings.mebibytes < 0 ? 1 : settings.mebibytes, settings.seed + (unsigned)which);
}

static void serve_loaders(int which) {
  struct pollfd ready[MOST];
  struct channel *from[MOST];
  uint64_t last[MOST] = {0};
  int count = 0;
  for (int i = which; which < settings.members && i < settings.loaders; i += settings.members) {
    from[count] = &channels[i];
    ready[count++] = (struct pollfd){.fd = channels[i].to_member[0], .events = POLLIN};
  }
  for (;;) {
    bool seen = poll(ready, (nfds_t)count, 5) > 0; /* else nothing is said of revents */
    if (kill(launcher, 0) != 0) exit(0);
    add(which);
    obey(which);
    for (int i = 0; i < count; i++) {
      uint64_t number;
      if (!seen || ready[i].revents == 0) continue;
      if (!transfer(ready[i].fd, &number, 0)) exit(0);
      if (number != ++last[i]) wrong("member %d got %lu after %lu", which, (unsigned long)number, (unsigned long)last[i] - 1);
      add(which);
      if (!transfer(from[i]->to_loader[1], &number, 1)) exit(0);
    }
  }
}

static void be_member(int which) {
  keep(-1, which < settings.members ? which : -1);
  start_cuda(which);
  settle();
  atomic_store(&board->member[which].pid, getpid());
  serve_loaders(which);
}

/* The child of a dead launcher dies too. */
static pid_t begin(void) {
  pid_t child = fork();
  if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  return child;
}

static int await_member(int which) {
  for (int i = 0; i < PATIENCE_MS / 5; i++) {
    if (atomic_load(&board->member[which].pid) != 0) return 1;
    milliseconds(5);
  }
  return 0;
}

static int await_answer(struct member *member, const char *request, char *reply) {
  int asked = atomic_load(&member->asked) + 1;
  snprintf(member->request, sizeof member->request, "%s", request);
  atomic_store(&member->asked, asked);
  for (int i = 0; i < PATIENCE_MS / 5; i++) {
    if (atomic_load(&member->answered) == asked) {
      strcpy(reply, member->reply);
      return 1;
    }
    milliseconds(5);
  }
  return 0;
}

static void tell_status(char *reply) {
  unsigned long received = 0, sum = 0;
  for (int i = 0; i < settings.loaders; i++) {
    unsigned long sent = atomic_load(&board->sent[i]); /* first: more may return before the next line */
    unsigned long returned = atomic_load(&board->returned[i]);
    if (sent > returned + 2) wrong("loader %d sent %lu and got %lu", i, sent, returned);
    received += returned;
  }
  for (int i = 0; i < members; i++) sum += atomic_load(&board->member[i].added);
  if (atomic_load(&board->wrong) != 0) snprintf(reply, ANSWER_SIZE, "bad %.400s", board->what);
  else snprintf(reply, ANSWER_SIZE, "ok %lu %lu", received, sum);
}

static void spawn(int through, char *reply) {
  int which = members;
  pid_t child = begin();
  if (child == 0 && through) {
    if (fork() == 0) be_member(which);
    settle();
    for (;;) pause();
  }
  if (child == 0) be_member(which);
  if (through) between = child;
  if (!await_member(which)) {
    strcpy(reply, "error: it does not start");
    return;
  }
  members++;
  snprintf(reply, ANSWER_SIZE, "%d", which);
}

static void answer(const char *request, char *reply) {
  int which = 0, time = 0;
  char word[16] = "";
  sscanf(request, "%15s %d %d", word, &which, &time);
  if (which < 0 || which >= MOST) which = 0;
  struct member *member = &board->member[which];
  strcpy(reply, "ok");
  if (strcmp(word, "status") == 0) tell_status(reply);
  else if (strcmp(word, "member") == 0) snprintf(reply, ANSWER_SIZE, "%d", atomic_load(&member->pid));
  else if (strcmp(word, "loader") == 0) snprintf(reply, ANSWER_SIZE, "%d", atomic_load(&board->loader[which]));
  else if (strcmp(word, "spawn") == 0) spawn(0, reply);
  else if (strcmp(word, "child") == 0) spawn(1, reply);
  else if (strcmp(word, "leave") == 0 && between > 1) kill(between, SIGKILL);
  else if (strcmp(word, "end") == 0 && atomic_load(&member->pid) > 1) kill(atomic_load(&member->pid), SIGKILL);
  else if (strcmp(word, "stop") == 0 && atomic_load(&board->loader[0]) > 1) kill(atomic_load(&board->loader[0]), SIGSTOP);
  else if (strcmp(word, "go") == 0 && atomic_load(&board->loader[0]) > 1) kill(atomic_load(&board->loader[0]), SIGCONT);
  else if (strcmp(word, "verify") == 0) {
    if (!await_answer(member, "verify", reply)) strcpy(reply, "error: no answer");
  } else if (strcmp(word, "spin") == 0) {
    char text[ANSWER_SIZE];
    snprintf(text, sizeof text, "spin %d", time);
    if (!await_answer(member, text, reply)) strcpy(reply, "error: no answer");
  } else {
    strcpy(reply, "error: not understood");
  }
}

static int run_job(const struct options *options) {
  settings = *options;
  if (settings.members < 0 || settings.members > MOST / 2 || settings.loaders < 0 || settings.loaders > MOST
      || (settings.members == 0 && settings.loaders > 0)) {
    fprintf(stderr, "too many members or loaders, or loaders without members\n");
    return 2;
  }
  launcher = getpid();
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (board == MAP_FAILED) return 4;
  signal(SIGCHLD, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  for (open_channels = 0; open_channels < settings.loaders; open_channels++) open_channel(open_channels);
  for (members = 0; members < settings.members; members++)
    if (begin() == 0) be_member(members);
  for (int i = 0; i < settings.members; i++) {
    if (!await_member(i)) {
      fprintf(stderr, "member %d does not start\n", i);
      return 3;
    }
  }
  for (int i = 0; i < settings.loaders; i++) {
    pid_t child = begin();
    if (child == 0) load(i);
    atomic_store(&board->loader[i], child);
  }
  /* A later child must not close descriptors that have these numbers by that time. */
  for (int i = 0; i < settings.loaders; i++) {
    close(channels[i].to_member[0]);
    close(channels[i].to_member[1]);
    if (i % 2 == 0) {
      close(channels[i].to_loader[0]);
      close(channels[i].to_loader[1]);
    }
  }
  open_channels = 0;
  return serve(options, answer);
}

int main(int argc, char **argv) {
  struct options options = parse_options(argc, argv);
  return run(&options, run_job);
}
