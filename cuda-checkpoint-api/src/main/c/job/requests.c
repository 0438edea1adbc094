/* The root of a job that may request snapshots of itself. The command is its child. The root is part of the job and is dumped
 * and restored with it, so it keeps the connections of the job's processes:
 *   SIGUSR1, SIGUSR2   request a snapshot when the GPU is idle, or now
 *   the socket         takes a line, `idle` or `now`, and answers with a line:
 *                        original            the snapshot was made, and the client is in the original job
 *                        restored            the client was restored from an image
 *                        asked               to clients outside of the job, which are in no image
 *                        refused: WHY
 * Every other signal is forwarded to the command, whose exit status is that of the job. The program keeps its own signal
 * handlers, since nothing here is in its process.
 *
 * A request is written to a FIFO, as `idle TOKEN` or `now TOKEN`. The FIFO is open only for the write, since CRIU could not
 * dump a connection to a controller. The controller answers through the socket:
 *   begun TOKEN         later requests are not part of this snapshot
 *   original TOKEN, refused: TOKEN WHY        the end of the snapshot
 *   taken NAME          after a restore: the FIFO, asks-NAME, belongs to this process, and not to another copy
 * The root itself detects that it was restored, by another start time or boot, and answers its clients. So any controller can
 * restore the job, on any host. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "job.h"

/* At most WAITING connections wait for a snapshot, so that the controller can connect too. */
enum { WAITING = 64, MOST = 2 * WAITING, LINE = 640, TOKEN = 16, DEEPEST = 4096 };
enum { TICK_MS = 100, SPEAK_TICKS = 50, LOOK_TICKS = 50 };

struct client {
  int fd, length, ticks;
  bool waits;
  char line[LINE];
};

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static const char *requests;
static bool taken = true; /* whether the FIFO belongs to this process, as far as is known */
static int listener = -1;

static struct client clients[MOST];
static int connected;

/* The request that is not answered yet. */
static struct {
  bool open, urgent, begun;
  int ticks;
  char token[TOKEN + 1];
} request;

static char self[128];
static pid_t command;

static volatile sig_atomic_t caught[_NSIG];

/* Async-signal-safe, and does not change errno. A signal that the guard sends to every process is not forwarded. */
static void on_signal(int number, siginfo_t *info, void *context) {
  (void)context;
  if (info->si_code == SI_QUEUE && info->si_value.sival_int == TO_EVERYONE) return;
  caught[number] = 1;
}

static bool is_ours(int number) {
  switch (number) {
    case SIGKILL: case SIGSTOP: case SIGTSTP: case SIGTTIN: case SIGTTOU: case SIGCONT: case SIGPIPE:
    case SIGSEGV: case SIGBUS: case SIGILL: case SIGFPE: case SIGABRT: case SIGTRAP: case SIGSYS:
      return false;
    default:
      return number < 32 || number >= SIGRTMIN;
  }
}

static void catch_signals(void) {
  struct sigaction action = {.sa_flags = SA_SIGINFO};
  action.sa_sigaction = on_signal;
  sigfillset(&action.sa_mask);
  for (int number = 1; number < _NSIG; number++)
    if (is_ours(number)) sigaction(number, &action, NULL);
  signal(SIGPIPE, SIG_IGN);
}

static ssize_t read_file(const char *path, char *text, size_t size) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  ssize_t length = read(file, text, size - 1);
  close(file);
  text[length < 0 ? 0 : length] = 0;
  return length;
}

/* Reads the parent and the start time of a process. */
static bool read_stat(int pid, int *parent, unsigned long long *start) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  if (read_file(path, text, sizeof text) <= 0) return false;
  const char *after = strrchr(text, ')');
  return after != NULL &&
         sscanf(after + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", parent, start) == 2;
}

/* Identifies this process over boots and hosts; empty if it cannot be read. */
static void identify(char *into, size_t size) {
  char boot[64];
  int parent;
  unsigned long long start;
  into[0] = 0;
  if (read_stat(getpid(), &parent, &start) && read_file("/proc/sys/kernel/random/boot_id", boot, sizeof boot) > 0)
    snprintf(into, size, "%llu %s", start, boot);
}

static bool is_inside(int pid) {
  int parent;
  unsigned long long start;
  for (int depth = 0; pid > 0 && depth < DEEPEST; depth++, pid = parent) {
    if (pid == getpid()) return true;
    if (!read_stat(pid, &parent, &start)) return false;
  }
  return false;
}

static void drop(struct client *client) {
  close(client->fd);
  client->fd = -1;
}

static int waiting(void) {
  int count = 0;
  for (int each = 0; each < connected; each++) count += clients[each].fd >= 0 && clients[each].waits;
  return count;
}

/* Answers a client, without waiting for it to read. */
static void answer(struct client *client, const char *text) {
  char line[LINE + 2];
  int length = snprintf(line, sizeof line, "%s\n", text);
  send(client->fd, line, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT);
  drop(client);
}

static void answer_all(const char *text) {
  request.open = request.begun = request.urgent = false;
  for (int each = 0; each < connected; each++)
    if (clients[each].fd >= 0 && clients[each].waits) answer(&clients[each], text);
}

/* Fails if no controller reads requests. */
static int open_requests(void) { return taken ? open(requests, O_WRONLY | O_NONBLOCK | O_CLOEXEC) : -1; }

static bool send_request(void) {
  char line[LINE];
  int fifo = open_requests();
  if (fifo < 0) return false;
  int length = snprintf(line, sizeof line, "%s %s\n", request.urgent ? "now" : "idle", request.token);
  bool sent = write(fifo, line, (size_t)length) == length;
  close(fifo);
  return sent;
}

static bool is_taken(void) {
  int fifo = open_requests();
  if (fifo >= 0) close(fifo);
  return fifo >= 0;
}

/* Makes a request, or joins the current one. Returns NULL or the reason for a refusal. */
static const char *ask(bool urgent) {
  if (request.begun) return "refused: a snapshot is being made, ask again when it is done";
  if (request.open && (request.urgent || !urgent)) return NULL;
  if (!request.open) {
    unsigned char random[TOKEN / 2];
    if (getrandom(random, sizeof random, 0) != sizeof random) return "refused: no random number is available";
    for (int each = 0; each < TOKEN / 2; each++) snprintf(request.token + 2 * each, 3, "%02x", random[each]);
  }
  bool was_open = request.open;
  request.open = true;
  request.urgent = urgent;
  request.ticks = 0;
  if (send_request()) return NULL;
  request.urgent = false;
  request.open = was_open;
  return "refused: no controller accepts requests of this process now";
}

static bool takes(const char *line, const char *verb, const char **rest) {
  size_t length = strlen(verb);
  if (strncmp(line, verb, length) != 0 || !request.open || strncmp(line + length, request.token, TOKEN) != 0) return false;
  *rest = line + length + TOKEN;
  return **rest == 0 || **rest == ' ';
}

static void serve_line(struct client *client) {
  const char *rest, *line = client->line;
  struct ucred peer = {0};
  socklen_t size = sizeof peer;
  bool urgent = strcmp(line, "now") == 0;
  if (getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || (peer.uid != 0 && peer.uid != geteuid())) {
    answer(client, "refused: only the user of the process may ask");
  } else if (urgent || strcmp(line, "idle") == 0) {
    bool inside = is_inside(peer.pid);
    const char *refusal = inside && waiting() == WAITING ? "refused: too many wait for a snapshot" : ask(urgent);
    if (refusal != NULL || !inside) {
      answer(client, refusal != NULL ? refusal : "asked");
    } else {
      client->waits = true;
    }
  } else if (takes(line, "begun ", &rest)) {
    request.begun = true;
    answer(client, "ok");
  } else if (takes(line, "original ", &rest)) {
    answer(client, "ok");
    answer_all("original");
  } else if (takes(line, "refused: ", &rest)) {
    char why[LINE];
    snprintf(why, sizeof why, "refused:%s", rest);
    answer(client, "ok");
    answer_all(why);
  } else if (strncmp(line, "taken ", 6) == 0 && strcmp(line + 6, requests + strlen(requests) - TOKEN) == 0) {
    taken = true;
    answer(client, "ok");
  } else {
    answer(client, "refused: ask with a line that is `idle` or `now`");
  }
}

static void receive(struct client *client) {
  ssize_t got = recv(client->fd, client->line + client->length, (size_t)(LINE - 1 - client->length), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    drop(client);
    return;
  }
  client->length += (int)got;
  client->line[client->length] = 0;
  char *end = strchr(client->line, '\n');
  if (end == NULL) {
    if (client->length == LINE - 1) answer(client, "refused: the line is too long");
    return;
  }
  *end = 0;
  if (end > client->line && end[-1] == '\r') end[-1] = 0;
  serve_line(client);
}

/* Accepts all connections, since CRIU cannot dump one that is not accepted yet. */
static void accept_all(void) {
  for (int fd; connected < MOST && (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;)
    clients[connected++] = (struct client){.fd = fd};
}

static void forget_dropped(void) {
  int kept = 0;
  for (int each = 0; each < connected; each++)
    if (clients[each].fd >= 0) clients[kept++] = clients[each];
  connected = kept;
}

static void detect_restore(void) {
  char now[sizeof self];
  identify(now, sizeof now);
  if (now[0] == 0 || strcmp(now, self) == 0) return;
  memcpy(self, now, sizeof self);
  taken = false;
  answer_all("restored");
}

/* Returns whether a tick has passed. Any time in which this process was stopped counts as one tick. */
static bool is_tick(void) {
  static long long last;
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  long long now = time.tv_sec * 1000LL + time.tv_nsec / 1000000;
  if (now >= last && now - last < TICK_MS) return false;
  last = now;
  return true;
}

static void tick(void) {
  for (int each = 0; each < connected; each++) {
    struct client *client = &clients[each];
    if (client->fd >= 0 && !client->waits && ++client->ticks > SPEAK_TICKS) answer(client, "refused: nothing was asked");
  }
  if (request.open && ++request.ticks % LOOK_TICKS == 0 && !is_taken())
    answer_all("refused: the controller of this process has exited");
}

static void end(int status) {
  unlink(address.sun_path);
  if (taken) unlink(requests);
  if (WIFSIGNALED(status)) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    int number = WTERMSIG(status);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    signal(number, SIG_DFL);
    kill(getpid(), number);
    _exit(128 + number); /* its own signals do not kill the first process of a pid namespace */
  }
  _exit(WEXITSTATUS(status));
}

static void reap(void) {
  int status;
  pid_t child;
  while ((child = waitpid(-1, &status, WNOHANG)) > 0)
    if (child == command) end(status);
}

static void take_signals(void) {
  for (int number = 1; number < _NSIG; number++) {
    if (!caught[number]) continue;
    caught[number] = 0;
    if (number == SIGUSR1 || number == SIGUSR2) {
      ask(number == SIGUSR2);
    } else if (number != SIGCHLD) {
      kill(command, number);
    }
  }
}

static void serve(const sigset_t *mask) {
  const struct timespec patience = {0, TICK_MS * 1000000L};
  for (;;) {
    struct pollfd polled[MOST + 1];
    int count = connected;
    for (int each = 0; each < count; each++)
      polled[each] = (struct pollfd){clients[each].fd, clients[each].waits ? 0 : POLLIN, 0};
    polled[count] = (struct pollfd){count < MOST ? listener : -1, POLLIN, 0};
    int ready = ppoll(polled, (nfds_t)count + 1, count > 0 || request.open ? &patience : NULL, mask);
    reap();
    detect_restore();
    take_signals();
    for (int each = 0; ready > 0 && each < count; each++) {
      struct client *client = &clients[each];
      if (client->fd < 0 || polled[each].revents == 0) continue;
      if (client->waits) {
        drop(client); /* it has disconnected; a half-closed connection still waits */
      } else {
        receive(client);
      }
    }
    if (is_tick()) tick();
    forget_dropped();
    if (ready > 0 && polled[count].revents != 0) accept_all();
  }
}

int listen_for_requests(const char *socket_path, const char *requests_path) {
  requests = strdup(requests_path); /* the arguments are overwritten later */
  if (requests == NULL) return -1;
  if (strlen(socket_path) >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  strcpy(address.sun_path, socket_path);
  mode_t usual = umask(077);
  listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int answer = listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, MOST) != 0 ||
                       (mkfifo(requests, 0600) != 0 && errno != EEXIST)
                   ? -1
                   : setenv("GPUPROCESS_SOCKET", socket_path, 1);
  umask(usual);
  return answer;
}

/* Replaces the arguments, which every user can read and which contain the job's environment. The kernel shows arguments
 * that do not end with a NUL up to their first NUL. */
static void set_title(char **arguments, char **words) {
  char title[1024] = "gpuprocess-root:", **last = arguments;
  while (last[1] != NULL) last++;
  size_t length = strlen(title), size = (size_t)(*last - *arguments) + strlen(*last) + 1;
  for (; *words != NULL && length < sizeof title; words++)
    length += (size_t)snprintf(title + length, sizeof title - length, " %s", *words);
  memset(*arguments, 0, size);
  strncpy(*arguments, title, size - 2);
  (*arguments)[size - 1] = '.';
}

int begin_to_serve(int to_close, char **arguments, char **words) {
  char pid[16];
  sigset_t all, mask;
  snprintf(pid, sizeof pid, "%d", (int)getpid());
  sigfillset(&all);
  const pid_t root = getpid();
  if (listener < 0) return 0;
  if (setenv("GPUPROCESS_ROOT", pid, 1) != 0 || sigprocmask(SIG_SETMASK, &all, &mask) != 0) return -1;
  command = fork();
  if (command < 0) return -1;
  if (command == 0) {
    /* A process group of its own, which it can signal without this process. The command is killed if this process ends. */
    if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || sigprocmask(SIG_SETMASK, &mask, NULL) != 0) return -1;
    if (getppid() != root) _exit(124); /* the root has ended before the signal was requested */
    return 0;
  }
  close(to_close);
  catch_signals();
  prctl(PR_SET_NAME, "gpuprocess-root");
  set_title(arguments, words);
  identify(self, sizeof self);
  serve(&mask);
  return -1;
}
