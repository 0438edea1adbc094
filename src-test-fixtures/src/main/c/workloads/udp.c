#include "udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct options parse_options(int argc, char **argv) {
  struct options options = {.address = htonl(INADDR_LOOPBACK), .mebibytes = -1, .seed = 1};
  for (int i = 1; i < argc; i++) {
    const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (strcmp(name, "--setsid") == 0) {
      options.own_session = true;
      continue;
    }
    if (strcmp(name, "--keeper") == 0) {
      options.kept = true;
      continue;
    }
    if (strcmp(name, "--first-thread-ends") == 0) {
      options.leaves = true;
      continue;
    }
    if (strcmp(name, "--print") == 0) {
      options.prints = true;
      continue;
    }
    if (value == NULL) goto misunderstood;
    i++;
    if (strcmp(name, "--address") == 0) options.address = inet_addr(value);
    else if (strcmp(name, "--port") == 0) options.port = atoi(value);
    else if (strcmp(name, "--ready") == 0) options.ready = value;
    else if (strcmp(name, "--gpu") == 0) options.gpu = atoi(value);
    else if (strcmp(name, "--mib") == 0) options.mebibytes = atol(value);
    else if (strcmp(name, "--seed") == 0) options.seed = strtoull(value, NULL, 10);
    else if (strcmp(name, "--pollers") == 0) options.pollers = atoi(value);
    else if (strcmp(name, "--members") == 0) options.members = atoi(value);
    else if (strcmp(name, "--gpus") == 0) options.gpus = atoi(value);
    else if (strcmp(name, "--subject") == 0) options.subject = value;
    else if (strcmp(name, "--loaders") == 0) options.loaders = atoi(value);
    else goto misunderstood;
    continue;
  misunderstood:
    fprintf(stderr, "%s: not understood: %s\n", argv[0], name);
    exit(2);
  }
  pid_t child = options.kept ? fork() : 0;
  if (child > 0) waitpid(child, NULL, 0);
  if (child != 0) exit(child < 0);
  if (options.own_session) setsid();
  return options;
}

static struct {
  struct options options;
  int (*body)(const struct options *options);
} second;

static void *run_second(void *unused) {
  (void)unused;
  exit(second.body(&second.options));
}

int run(const struct options *options, int (*body)(const struct options *options)) {
  pthread_t thread;
  if (!options->leaves) return body(options);
  second.options = *options;
  second.body = body;
  if (pthread_create(&thread, NULL, run_second, NULL) != 0) return 1;
  pthread_exit(NULL);
}

/* From now on nothing of the place where it was started is needed, so that an image of it can be restored when that
 * is gone. */
static int settle(void) {
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return -1;
  dup2(null, STDERR_FILENO);
  close(null);
  return chdir("/");
}

/* The file appears complete or not at all, and when this process has settled. */
static int announce(const char *file, int port) {
  if (file == NULL) {
    printf("port %d\n", port);
    return fflush(stdout);
  }
  char half[PATH_MAX];
  snprintf(half, sizeof half, "%s.half", file);
  FILE *out = fopen(half, "we");
  if (out == NULL) return -1;
  fprintf(out, "%d\n", port);
  return fclose(out) == 0 && settle() == 0 ? rename(half, file) : -1;
}

int serve(const struct options *options, void (*answer)(const char *request, char *reply)) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)options->port)};
  address.sin_addr.s_addr = options->address;
  socklen_t length = sizeof address;
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) != 0
      || getsockname(fd, (struct sockaddr *)&address, &length) != 0
      || announce(options->ready, ntohs(address.sin_port)) != 0) {
    perror("cannot open the port or say that it is open");
    return 1;
  }
  for (;;) {
    char request[ANSWER_SIZE], reply[ANSWER_SIZE] = "";
    struct sockaddr_in peer;
    length = sizeof peer;
    ssize_t size = recvfrom(fd, request, sizeof request - 1, 0, (struct sockaddr *)&peer, &length);
    if (size < 0 && (errno == EINTR || errno == ECONNREFUSED)) continue;
    if (size < 0) return 1;
    while (size > 0 && (request[size - 1] == '\n' || request[size - 1] == '\r')) size--;
    request[size] = '\0';
    answer(request, reply);
    sendto(fd, reply, strlen(reply), 0, (struct sockaddr *)&peer, length);
  }
}
