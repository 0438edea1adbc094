/* Connected sockets, both ends in the tree. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "attributes.h"
#include "sockets.h"

static int tcp[2];

static void connect_tcp(void) {
  int listener = bound_socket(SOCK_STREAM);
  may(listen(listener, 2));
  struct sockaddr_in to = address_of(listener);
  tcp[0] = may(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  may(connect(tcp[0], (struct sockaddr *)&to, sizeof to));
  tcp[1] = may(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
  close(listener);
  may(send(tcp[0], "hello", 5, 0));
}

static void tell_pair(int *ends, int flags) {
  char text[16] = "";
  ssize_t length = recv(ends[1], text, 5, MSG_DONTWAIT | flags);
  tell("received %s %s", outcome(length), text);
  if (length > 0) tell("sent %s", outcome(send(ends[0], text, length, MSG_NOSIGNAL)));
}

static void tell_tcp(void) {
  for (int left = 1000; left > 0 && recv(tcp[1], &(char){0}, 1, MSG_PEEK | MSG_DONTWAIT) < 0; left--) pause_shortly();
  tell_pair(tcp, 0);
}

static void connect_with_options(void) {
  connect_tcp();
  set_option(tcp[0], IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(tcp[0], IPPROTO_TCP, TCP_USER_TIMEOUT, 54321);
  set_option(tcp[1], SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(tcp[1], IPPROTO_TCP, TCP_NOTSENT_LOWAT, 8192);
}

static void tell_tcp_options(void) {
  tell_tcp();
  tell_option(tcp[0], "no-delay", IPPROTO_TCP, TCP_NODELAY);
  tell_option(tcp[0], "user-timeout", IPPROTO_TCP, TCP_USER_TIMEOUT);
  tell_option(tcp[1], "keepalive", SOL_SOCKET, SO_KEEPALIVE);
  tell_option(tcp[1], "not-sent", IPPROTO_TCP, TCP_NOTSENT_LOWAT);
}

static void connect_half(void) {
  connect_tcp();
  may(shutdown(tcp[0], SHUT_WR));
}

static void tell_half(void) {
  char text[16] = "";
  tell("back %s", outcome(send(tcp[1], "x", 1, MSG_NOSIGNAL)));
  tell("received %s", outcome(recv(tcp[0], text, 1, 0)));
  tell("waits %ld", (long)recv(tcp[1], text, 10, MSG_PEEK | MSG_DONTWAIT));
}

/* The client has closed the connection, the server has not. */
static void close_client(void) {
  connect_tcp();
  may(close(tcp[0]));
}
static void tell_closed(void) {
  char text[16] = "";
  tell("waits %ld", (long)recv(tcp[1], text, 10, MSG_PEEK | MSG_DONTWAIT));
}

/* A connection that is not accepted yet. */
static int pending[2];
static void connect_pending(void) {
  pending[0] = bound_socket(SOCK_STREAM);
  may(listen(pending[0], 2));
  struct sockaddr_in to = address_of(pending[0]);
  pending[1] = may(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  may(connect(pending[1], (struct sockaddr *)&to, sizeof to));
}
static void tell_pending(void) {
  struct pollfd one = {.fd = pending[0], .events = POLLIN};
  tell("waits %d", poll(&one, 1, 0));
  tell("sent %s", outcome(send(pending[1], "", 0, MSG_NOSIGNAL)));
}

static int stream[2], datagrams[2], packets[2], flight[2], named[2];

static void open_pair(int *ends, int type) { may(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends)); }

static void open_stream(void) {
  open_pair(stream, SOCK_STREAM);
  may(send(stream[0], "hello", 5, 0));
}
static void tell_stream(void) { tell_pair(stream, 0); }

static void open_datagrams(void) {
  open_pair(datagrams, SOCK_DGRAM);
  set_option(datagrams[1], SOL_SOCKET, SO_PASSCRED, 1);
  may(send(datagrams[0], "hello", 5, 0));
}
static void tell_datagrams(void) {
  tell_pair(datagrams, 0);
  tell_option(datagrams[1], "pass-credentials", SOL_SOCKET, SO_PASSCRED);
}

static void open_packets(void) {
  open_pair(packets, SOCK_SEQPACKET);
  set_option(packets[0], SOL_SOCKET, SO_SNDBUF, 54321);
  may(send(packets[0], "hello", 5, 0));
}
static void tell_packets(void) {
  tell_pair(packets, 0);
  tell_option(packets[0], "send-buffer", SOL_SOCKET, SO_SNDBUF);
}

/* A descriptor that was sent and not received yet. */
static void send_descriptor(void) {
  open_pair(flight, SOCK_STREAM);
  int ends[2];
  may(pipe(ends));
  char control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec part = {"d", 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  *header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
  memcpy(CMSG_DATA(header), &ends[1], sizeof(int));
  may(sendmsg(flight[0], &message, 0));
  close(ends[1]);
}
static void tell_flight(void) {
  char byte = 0;
  tell("waits %s", outcome(recv(flight[1], &byte, 1, MSG_PEEK | MSG_DONTWAIT)));
}

static int queue[2], half[2], alone, marked[2], near, far, filled[2];

/* One that is connected and not accepted yet. */
static socklen_t name_of(struct sockaddr_un *address, const char *name) {
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  strncpy(address->sun_path, own_path(name), sizeof address->sun_path - 1);
  return sizeof *address;
}
static void queue_stream(void) {
  struct sockaddr_un own;
  socklen_t length = name_of(&own, "queue");
  queue[0] = may(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  may(bind(queue[0], (struct sockaddr *)&own, length));
  may(listen(queue[0], 5));
  queue[1] = may(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  may(connect(queue[1], (struct sockaddr *)&own, length));
  may(send(queue[1], "hello", 5, 0));
}
static void tell_queue(void) {
  struct pollfd one = {.fd = queue[0], .events = POLLIN};
  tell("waits %d", poll(&one, 1, 0));
  tell("sent %s", outcome(send(queue[1], "", 0, MSG_NOSIGNAL)));
}

static void shut_half(void) {
  open_pair(half, SOCK_STREAM);
  may(send(half[0], "hello", 5, 0));
  may(shutdown(half[0], SHUT_WR));
}
static void tell_shut(void) {
  char text[16] = "";
  tell("waits %ld", (long)recv(half[1], text, 10, MSG_PEEK | MSG_DONTWAIT));
  tell("back %s", outcome(send(half[1], "x", 1, MSG_NOSIGNAL)));
  tell("received %s forwards %s", outcome(recv(half[0], text, 1, MSG_DONTWAIT)), outcome(send(half[0], "x", 1, MSG_NOSIGNAL)));
}

static void lose_peer(void) {
  int both[2];
  open_pair(both, SOCK_STREAM);
  may(send(both[0], "hello", 5, 0));
  close(both[0]);
  alone = both[1];
}
static void tell_alone(void) {
  char text[16] = "";
  tell("waits %ld %.5s", (long)recv(alone, text, 10, MSG_PEEK | MSG_DONTWAIT), text);
  struct pollfd one = {.fd = alone, .events = POLLIN};
  poll(&one, 1, 0);
  tell("hang-up %d", (one.revents & POLLHUP) != 0);
}

/* Datagrams by name: connected one way, with one that waits. */
static void name_datagrams(void) {
  struct sockaddr_un own;
  socklen_t length = name_of(&own, "datagrams");
  far = may(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  may(bind(far, (struct sockaddr *)&own, length));
  near = may(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  may(connect(near, (struct sockaddr *)&own, length));
  may(send(near, "hello", 5, 0));
}
static void tell_named(void) { tell_pair((int[]){near, far}, 0); }

/* With the sender's pid and user, which the kernel adds; the user may be any number. */
static void mark(void) {
  open_pair(marked, SOCK_DGRAM);
  set_option(marked[1], SOL_SOCKET, SO_PASSCRED, 1);
  may(send(marked[0], "hello", 5, 0));
}
static void tell_marked(void) {
  char text[16] = "", control[CMSG_SPACE(sizeof(struct ucred))] = {0};
  struct iovec part = {text, 10};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  ssize_t length = recvmsg(marked[1], &message, MSG_PEEK | MSG_DONTWAIT);
  struct cmsghdr *header = length > 0 ? CMSG_FIRSTHDR(&message) : NULL;
  struct ucred from = {0};
  if (header) memcpy(&from, CMSG_DATA(header), sizeof from);
  tell("waits %s from self %d user %d", outcome(length), from.pid == getpid(), (int)from.uid);
  struct ucred peer = {0};
  getsockopt(marked[1], SOL_SOCKET, SO_PEERCRED, &peer, &(socklen_t){sizeof peer});
  tell("peer self %d user %d", peer.pid == getpid(), (int)peer.uid);
}

static void fill_socket(void) {
  open_pair(filled, SOCK_STREAM);
  char part[4096];
  memset(part, 'x', sizeof part);
  while (send(filled[0], part, sizeof part, MSG_DONTWAIT) > 0) {
  }
}
static void tell_filled(void) {
  int length = 0;
  tell("waits %s %d", outcome(ioctl(filled[1], FIONREAD, &length)), length);
}

/* A UNIX socket of the machine at the other end, as syslog and the journal are. */
static void connect_outside(void) {
  static const char *const PATHS[] = {"/dev/log", "/run/systemd/journal/stdout", "/run/systemd/notify"};
  named[0] = may(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  for (int i = 0; i < 3; i++) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    strncpy(to.sun_path, PATHS[i], sizeof to.sun_path - 1);
    if (connect(named[0], (struct sockaddr *)&to, sizeof to) == 0) return;
  }
  impossible("no log service");
}

const struct attribute connection_attributes[] = {
    {"tcp-connection", EARLY, connect_tcp, tell_tcp},
    {"tcp-connection-options", EARLY, connect_with_options, tell_tcp_options},
    {"tcp-closed-peer", EARLY, close_client, tell_closed},
    {"tcp-pending", EARLY, connect_pending, tell_pending},
    {"unix-pending", EARLY, queue_stream, tell_queue},
    {"unix-half", EARLY, shut_half, tell_shut},
    {"unix-alone", EARLY, lose_peer, tell_alone},
    {"unix-dgram-named", EARLY, name_datagrams, tell_named},
    {"unix-credentials", EARLY, mark, tell_marked},
    {"unix-full", EARLY, fill_socket, tell_filled},
    {"tcp-half-closed", EARLY, connect_half, tell_half},
    {"unix-stream", EARLY, open_stream, tell_stream},
    {"unix-dgram", EARLY, open_datagrams, tell_datagrams},
    {"unix-seqpacket", EARLY, open_packets, tell_packets},
    {"unix-descriptor", EARLY, send_descriptor, tell_flight},
    {"unix-outside", EARLY, connect_outside, NULL},
    {0},
};
