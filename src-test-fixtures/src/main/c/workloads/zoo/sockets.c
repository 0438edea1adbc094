/* Sockets whose both ends are in the tree. */
#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <linux/if_packet.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "zoo.h"

static int listener = -1, one = -1, two = -1;

enum { ON_THE_WAY = 20 };
static int sent, received;

static void send_number(void) {
  expect(send(one, &sent, sizeof sent, MSG_NOSIGNAL) == sizeof sent);
  sent++;
}

static void receive_number(void) {
  int got = -1;
  expect(recv(two, &got, sizeof got, MSG_WAITALL) == sizeof got);
  if (got != received) bad("received %d instead of %d", got, received);
  received++;
}

static void fill(void) {
  for (int i = 0; i < ON_THE_WAY; i++) send_number();
}

static void pass_numbers(void) {
  send_number();
  receive_number();
}

static int option(int socket, int level, int name) {
  int value = 0;
  must(getsockopt(socket, level, name, &value, &(socklen_t){sizeof value}));
  return value;
}

static void set_option(int socket, int level, int name, int value) {
  must(setsockopt(socket, level, name, &value, sizeof value));
}

/* A port of the loopback interface. */
static struct sockaddr_in address_of(int socket) {
  struct sockaddr_in address;
  must(getsockname(socket, (struct sockaddr *)&address, &(socklen_t){sizeof address}));
  return address;
}

/* To an address of its own, so that the port is still free at the restore. */
static int bound(int type) {
  in_addr_t own = INADDR_LOOPBACK + ((getpid() & 0xffff) << 8);
  struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(own)};
  int socket_ = must(socket(AF_INET, type | SOCK_CLOEXEC, 0));
  must(bind(socket_, (struct sockaddr *)&any, sizeof any));
  return socket_;
}

static void open_udp(void) {
  one = bound(SOCK_DGRAM);
  two = bound(SOCK_DGRAM);
  struct sockaddr_in to = address_of(two), from = address_of(one);
  must(connect(one, (struct sockaddr *)&to, sizeof to));
  must(connect(two, (struct sockaddr *)&from, sizeof from));
  set_option(one, SOL_SOCKET, SO_BROADCAST, 1);
}

/* CRIU leaves out what waits in a UDP socket, so a datagram may be lost, as UDP permits. */
static void pass_datagrams(void) {
  static uint16_t port;
  send_number();
  for (int wait = 200; is_readable(two, wait); wait = 0) {
    int got = -1;
    expect(recv(two, &got, sizeof got, 0) == sizeof got && got < sent);
    received++;
  }
  expect(sent - received < 3);
  expect(option(one, SOL_SOCKET, SO_BROADCAST) == 1);
  uint16_t now = address_of(two).sin_port;
  expect(port == 0 || port == now);
  port = now;
}

static void open_listener(void) {
  listener = bound(SOCK_STREAM);
  set_option(listener, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(listener, SOL_SOCKET, SO_RCVBUF, 123456);
  must(listen(listener, 17));
}

static void is_listening(void) {
  static uint16_t port;
  expect(option(listener, SOL_SOCKET, SO_ACCEPTCONN) == 1);
  expect(option(listener, SOL_SOCKET, SO_KEEPALIVE) == 1);
  expect(option(listener, SOL_SOCKET, SO_RCVBUF) == 2 * 123456);
  uint16_t now = address_of(listener).sin_port;
  expect(port == 0 || port == now);
  port = now;
}

static void connect_and_accept(void) {
  struct sockaddr_in to = address_of(listener);
  one = must(socket(AF_INET, SOCK_STREAM, 0));
  must(connect(one, (struct sockaddr *)&to, sizeof to));
  two = must(accept(listener, NULL, NULL));
  sent = received = 0;
  fill();
  pass_numbers();
}

static void open_connection(void) {
  open_listener();
  connect_and_accept();
  must(close(listener));
  set_option(one, IPPROTO_TCP, TCP_NODELAY, 1);
}

static void pass_through_connection(void) {
  pass_numbers();
  expect(option(one, IPPROTO_TCP, TCP_NODELAY) == 1);
  struct tcp_info info;
  must(getsockopt(one, IPPROTO_TCP, TCP_INFO, &info, &(socklen_t){sizeof info}));
  expect(info.tcpi_state == TCP_ESTABLISHED);
}

/* One side has said all it had to say; the other has not read it yet, and may still answer. */
static void open_half_closed(void) {
  open_listener();
  connect_and_accept();
  must(close(listener));
  must(shutdown(one, SHUT_WR));
}

static void answer_on_half_closed(void) {
  int number = 4711, got = 0;
  expect(send(two, &number, sizeof number, MSG_NOSIGNAL) == sizeof number);
  expect(recv(one, &got, sizeof got, MSG_WAITALL) == sizeof got && got == 4711);
}

static void read_to_the_end(void) {
  while (received < sent) receive_number();
  int end;
  expect(recv(two, &end, sizeof end, 0) == 0);
}

static void open_pair(int type) {
  int ends[2];
  must(socketpair(AF_UNIX, type, 0, ends));
  one = ends[0];
  two = ends[1];
  set_option(two, SOL_SOCKET, SO_PASSCRED, 1);
}

static void open_stream_pair(void) {
  open_pair(SOCK_STREAM);
  set_option(two, SOL_SOCKET, SO_PASSCRED, 0);
  fill();
}

/* Packets keep their bounds. */
static void open_packet_pair(void) {
  open_pair(SOCK_SEQPACKET);
  set_option(two, SOL_SOCKET, SO_PASSCRED, 0);
  fill();
}

/* The sender of a datagram is known. */
static void open_datagram_pair(void) { open_pair(SOCK_DGRAM); }

static void pass_with_credentials(void) {
  send_number();
  int got = -1;
  char control[CMSG_SPACE(sizeof(struct ucred))];
  struct iovec part = {&got, sizeof got};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  expect(recvmsg(two, &message, 0) == sizeof got && got == received);
  received++;
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  expect(header && header->cmsg_type == SCM_CREDENTIALS);
  struct ucred who;
  memcpy(&who, CMSG_DATA(header), sizeof who);
  expect(who.pid == getpid());
}

static struct sockaddr_un unix_address;

static void open_unix_listener(void) {
  unix_address.sun_family = AF_UNIX;
  /* abstract, as a path may be too long for it */
  snprintf(unix_address.sun_path + 1, sizeof unix_address.sun_path - 1, "zoo-%d", getpid());
  listener = must(socket(AF_UNIX, SOCK_STREAM, 0));
  must(bind(listener, (struct sockaddr *)&unix_address, sizeof unix_address));
  must(listen(listener, 5));
  one = must(socket(AF_UNIX, SOCK_STREAM, 0));
  must(connect(one, (struct sockaddr *)&unix_address, sizeof unix_address));
  two = must(accept(listener, NULL, NULL));
  fill();
}

static void accept_another(void) {
  int from = must(socket(AF_UNIX, SOCK_STREAM, 0));
  must(connect(from, (struct sockaddr *)&unix_address, sizeof unix_address));
  int to = must(accept(listener, NULL, NULL));
  char byte = 'x';
  expect(send(from, &byte, 1, 0) == 1 && recv(to, &byte, 1, 0) == 1);
  must(close(from));
  must(close(to));
}

/* A pipe's end that exists only in an unread message. */
static int left_end;

static void send_descriptor(void) {
  open_pair(SOCK_STREAM);
  set_option(two, SOL_SOCKET, SO_PASSCRED, 0);
  int ends[2];
  must(pipe(ends));
  left_end = ends[0];
  expect(write(ends[1], "before", 6) == 6);
  char byte = 'd', control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec part = {&byte, 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  *header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
  memcpy(CMSG_DATA(header), &ends[1], sizeof(int));
  must(sendmsg(one, &message, 0));
  must(close(ends[1]));
}

static void message_waits(void) {
  char byte = 0;
  expect(recv(two, &byte, 1, MSG_PEEK) == 1 && byte == 'd');
}

static void receive_descriptor(void) {
  char byte = 0, control[CMSG_SPACE(sizeof(int))], text[13] = "";
  struct iovec part = {&byte, 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  expect(recvmsg(two, &message, 0) == 1);
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  expect(header && header->cmsg_type == SCM_RIGHTS);
  int end;
  memcpy(&end, CMSG_DATA(header), sizeof end);
  expect(write(end, "after", 5) == 5);
  expect(read(left_end, text, 12) == 11 && strcmp(text, "beforeafter") == 0);
  must(send(one, "d", 1, 0)); /* for the checks to come */
}

/* A netlink socket, as ip(8) has. It is in no group, so no other process fills it. */
static void open_netlink(void) {
  one = must(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  struct sockaddr_nl address = {.nl_family = AF_NETLINK};
  must(bind(one, (struct sockaddr *)&address, sizeof address));
}

/* No request is sent: the answer would be in the socket when send returns, and CRIU refuses a socket with unread data. */
static void look_at_netlink(void) {
  static uint32_t port;
  struct sockaddr_nl address;
  must(getsockname(one, (struct sockaddr *)&address, &(socklen_t){sizeof address}));
  expect(address.nl_family == AF_NETLINK && address.nl_groups == 0 && address.nl_pid != 0);
  expect(port == 0 || port == address.nl_pid);
  port = address.nl_pid;
  expect(option(one, SOL_SOCKET, SO_PROTOCOL) == NETLINK_ROUTE);
}

static void ask_netlink(void) {
  struct {
    struct nlmsghdr header;
    struct ifinfomsg link;
  } question = {.header = {.nlmsg_len = sizeof question, .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST},
                .link = {.ifi_index = 1}};
  char answer[8192];
  expect(send(one, &question, sizeof question, 0) == sizeof question);
  ssize_t size = recv(one, answer, sizeof answer, 0);
  expect(size > 0 && ((struct nlmsghdr *)answer)->nlmsg_type == RTM_NEWLINK);
}

static void open_packet_socket(void) {
  one = may(socket(AF_PACKET, SOCK_RAW, 0));
  struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ARP), .sll_ifindex = 1};
  must(bind(one, (struct sockaddr *)&address, sizeof address));
  set_option(one, SOL_PACKET, PACKET_VERSION, TPACKET_V2);
}

static void look_at_packet_socket(void) {
  struct sockaddr_ll address;
  must(getsockname(one, (struct sockaddr *)&address, &(socklen_t){sizeof address}));
  expect(address.sll_protocol == htons(ETH_P_ARP) && address.sll_ifindex == 1);
  expect(option(one, SOL_PACKET, PACKET_VERSION) == TPACKET_V2);
}

const struct specimen socket_specimens[] = {
    {"udp", "", 0, open_udp, pass_datagrams, NULL},
    {"tcp-listening", "", 0, open_listener, is_listening, connect_and_accept},
    {"tcp-established", "tcp", 0, open_connection, pass_through_connection, NULL},
    {"tcp-half-closed", "tcp", 0, open_half_closed, answer_on_half_closed, read_to_the_end},
    {"unix-stream", "", 0, open_stream_pair, pass_numbers, NULL},
    {"unix-seqpacket", "", 0, open_packet_pair, pass_numbers, NULL},
    {"unix-dgram", "", 0, open_datagram_pair, pass_with_credentials, NULL},
    {"unix-listening", "", 0, open_unix_listener, pass_numbers, accept_another},
    {"unix-descriptor-in-flight", "", 0, send_descriptor, message_waits, receive_descriptor},
    {"netlink", "", 0, open_netlink, look_at_netlink, ask_netlink},
    {"packet-socket", "", 0, open_packet_socket, look_at_packet_socket, NULL},
    {0},
};
