/* Sockets that have no peer: listeners, datagrams, netlink, and their options. */
#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/vm_sockets.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "attributes.h"
#include "sockets.h"

enum { LISTENER, OPTIONS, UDP, CONNECTED_UDP, MULTICAST, MULTIPATH, SIX, NETLINK, PACKET, RAW, PING, BOUND, UNIX_PATH, ABSTRACT, VSOCK, KINDS };
static int sockets[KINDS];

void set_option(int socket_, int level, int name, int value) { may(setsockopt(socket_, level, name, &value, sizeof value)); }

void tell_option(int socket_, const char *what, int level, int name) {
  int value = 0;
  socklen_t length = sizeof value;
  long result = getsockopt(socket_, level, name, &value, &length);
  tell("%s %s %d", what, outcome(result), value);
}

/* To an address of its own, so that the port is still free at the restore. */
int bound_socket(int type) {
  struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + ((getpid() & 0xffff) << 8))};
  int socket_ = may(socket(AF_INET, type | SOCK_CLOEXEC, 0));
  may(bind(socket_, (struct sockaddr *)&own, sizeof own));
  return socket_;
}

struct sockaddr_in address_of(int socket_) {
  struct sockaddr_in address = {0};
  socklen_t length = sizeof address;
  may(getsockname(socket_, (struct sockaddr *)&address, &length));
  return address;
}

void tell_address(int socket_) {
  struct sockaddr_in address = address_of(socket_);
  tell("port %d address %x", ntohs(address.sin_port), ntohl(address.sin_addr.s_addr));
}

static void listen_plainly(void) {
  sockets[LISTENER] = bound_socket(SOCK_STREAM);
  may(listen(sockets[LISTENER], 17));
}

static void tell_listener(void) {
  struct sockaddr_in address = address_of(sockets[LISTENER]);
  tell_address(sockets[LISTENER]);
  tell_option(sockets[LISTENER], "listens", SOL_SOCKET, SO_ACCEPTCONN);
  int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  tell("connect %s", outcome(connect(client, (struct sockaddr *)&address, sizeof address)));
  int server = accept4(sockets[LISTENER], NULL, NULL, SOCK_CLOEXEC);
  tell("accept %s", outcome(server));
  /* The client resets the connection: nothing waits in TIME_WAIT for a restore. */
  setsockopt(client, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
  close(client);
  close(server);
}

static const struct {
  const char *what;
  int level, name, value;
} OPTION_TABLE[] = {
    {"keepalive", SOL_SOCKET, SO_KEEPALIVE, 1},
    {"reuse-address", SOL_SOCKET, SO_REUSEADDR, 1},
    {"reuse-port", SOL_SOCKET, SO_REUSEPORT, 1},
    {"receive-buffer", SOL_SOCKET, SO_RCVBUF, 123456},
    {"send-buffer", SOL_SOCKET, SO_SNDBUF, 123456},
    {"low-water", SOL_SOCKET, SO_RCVLOWAT, 3},
    {"priority", SOL_SOCKET, SO_PRIORITY, 4},
    {"mark", SOL_SOCKET, SO_MARK, 5},
    {"out-of-band-inline", SOL_SOCKET, SO_OOBINLINE, 1},
    {"busy-poll", SOL_SOCKET, SO_BUSY_POLL, 7},
    {"timestamp", SOL_SOCKET, SO_TIMESTAMP, 1},
    {"no-delay", IPPROTO_TCP, TCP_NODELAY, 1},
    {"keep-idle", IPPROTO_TCP, TCP_KEEPIDLE, 77},
    {"keep-interval", IPPROTO_TCP, TCP_KEEPINTVL, 7},
    {"keep-count", IPPROTO_TCP, TCP_KEEPCNT, 4},
    {"user-timeout", IPPROTO_TCP, TCP_USER_TIMEOUT, 12345},
    {"defer-accept", IPPROTO_TCP, TCP_DEFER_ACCEPT, 3},
    {"fast-open", IPPROTO_TCP, TCP_FASTOPEN, 5},
    {"syn-count", IPPROTO_TCP, TCP_SYNCNT, 3},
    {"not-sent-low-water", IPPROTO_TCP, TCP_NOTSENT_LOWAT, 4096},
    {"linger-2", IPPROTO_TCP, TCP_LINGER2, 9},
    {"window-clamp", IPPROTO_TCP, TCP_WINDOW_CLAMP, 40000},
    {"max-segment", IPPROTO_TCP, TCP_MAXSEG, 1000},
    {"time-to-live", IPPROTO_IP, IP_TTL, 33},
    {"type-of-service", IPPROTO_IP, IP_TOS, 0x10},
    {"transparent", IPPROTO_IP, IP_TRANSPARENT, 1},
    {"free-bind", IPPROTO_IP, IP_FREEBIND, 1},
    {"path-mtu", IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO},
    {"packet-info", IPPROTO_IP, IP_PKTINFO, 1},
    {"receive-time-to-live", IPPROTO_IP, IP_RECVTTL, 1},
    {"receive-error", IPPROTO_IP, IP_RECVERR, 1},
};
enum { OPTION_COUNT = sizeof OPTION_TABLE / sizeof OPTION_TABLE[0] };

/* Those that this kernel and these rights permit. */
static void listen_with_options(void) {
  sockets[OPTIONS] = may(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  for (int i = 0; i < OPTION_COUNT; i++) {
    int value = OPTION_TABLE[i].value;
    setsockopt(sockets[OPTIONS], OPTION_TABLE[i].level, OPTION_TABLE[i].name, &value, sizeof value);
  }
  struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + ((getpid() & 0xffff) << 8) + 1)};
  may(bind(sockets[OPTIONS], (struct sockaddr *)&own, sizeof own));
  may(listen(sockets[OPTIONS], 5));
}

static void tell_options(void) {
  for (int i = 0; i < OPTION_COUNT; i++)
    tell_option(sockets[OPTIONS], OPTION_TABLE[i].what, OPTION_TABLE[i].level, OPTION_TABLE[i].name);
}

/* The two that servers set, which CRIU keeps. */
static void listen_with_timeouts(void) {
  listen_plainly();
  set_option(sockets[LISTENER], SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(sockets[LISTENER], IPPROTO_TCP, TCP_NODELAY, 1);
}

static void tell_timeouts(void) {
  tell_listener();
  tell_option(sockets[LISTENER], "keepalive", SOL_SOCKET, SO_KEEPALIVE);
  tell_option(sockets[LISTENER], "no-delay", IPPROTO_TCP, TCP_NODELAY);
}

static void open_udp(void) {
  sockets[UDP] = bound_socket(SOCK_DGRAM);
  set_option(sockets[UDP], SOL_SOCKET, SO_BROADCAST, 1);
}

static void tell_udp(void) {
  tell_address(sockets[UDP]);
  tell_option(sockets[UDP], "broadcast", SOL_SOCKET, SO_BROADCAST);
}

static void connect_udp(void) {
  sockets[CONNECTED_UDP] = bound_socket(SOCK_DGRAM);
  struct sockaddr_in self = address_of(sockets[CONNECTED_UDP]);
  may(connect(sockets[CONNECTED_UDP], (struct sockaddr *)&self, sizeof self));
}

static void tell_connected_udp(void) {
  char byte = 0;
  tell("send %s", outcome(send(sockets[CONNECTED_UDP], "x", 1, 0)));
  tell("receive %s", outcome(recv(sockets[CONNECTED_UDP], &byte, 1, 0)));
}

static void join_multicast(void) {
  sockets[MULTICAST] = may(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
  may(bind(sockets[MULTICAST], (struct sockaddr *)&any, sizeof any));
  struct ip_mreq member = {.imr_multiaddr.s_addr = htonl(0xefffff09), .imr_interface.s_addr = htonl(INADDR_LOOPBACK)};
  may(setsockopt(sockets[MULTICAST], IPPROTO_IP, IP_ADD_MEMBERSHIP, &member, sizeof member));
}

/* A second membership of the same kind is refused as long as there is the first. */
static void tell_multicast(void) {
  struct ip_mreq member = {.imr_multiaddr.s_addr = htonl(0xefffff09), .imr_interface.s_addr = htonl(INADDR_LOOPBACK)};
  long result = setsockopt(sockets[MULTICAST], IPPROTO_IP, IP_ADD_MEMBERSHIP, &member, sizeof member);
  tell("join again %s", outcome(result));
  if (result == 0) setsockopt(sockets[MULTICAST], IPPROTO_IP, IP_DROP_MEMBERSHIP, &member, sizeof member);
}

static void listen_multipath(void) {
  sockets[MULTIPATH] = may(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 262 /* IPPROTO_MPTCP */));
  struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  may(bind(sockets[MULTIPATH], (struct sockaddr *)&own, sizeof own));
  may(listen(sockets[MULTIPATH], 5));
}
static void tell_multipath(void) { tell_option(sockets[MULTIPATH], "protocol", SOL_SOCKET, SO_PROTOCOL); }

static void listen_six(void) {
  sockets[SIX] = may(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  set_option(sockets[SIX], IPPROTO_IPV6, IPV6_V6ONLY, 1);
  struct sockaddr_in6 own = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  may(bind(sockets[SIX], (struct sockaddr *)&own, sizeof own));
  may(listen(sockets[SIX], 5));
}
static void tell_six(void) {
  struct sockaddr_in6 own = {0};
  getsockname(sockets[SIX], (struct sockaddr *)&own, &(socklen_t){sizeof own});
  tell("port %d", ntohs(own.sin6_port));
  tell_option(sockets[SIX], "only", IPPROTO_IPV6, IPV6_V6ONLY);
  tell_option(sockets[SIX], "listens", SOL_SOCKET, SO_ACCEPTCONN);
}

static void open_netlink(void) {
  sockets[NETLINK] = may(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  struct sockaddr_nl own = {.nl_family = AF_NETLINK, .nl_groups = has("netlink-group") ? RTMGRP_LINK : 0};
  may(bind(sockets[NETLINK], (struct sockaddr *)&own, sizeof own));
}
static void tell_netlink(void) {
  struct sockaddr_nl own = {0};
  getsockname(sockets[NETLINK], (struct sockaddr *)&own, &(socklen_t){sizeof own});
  tell("port %u groups %x", own.nl_pid, own.nl_groups);
  tell_option(sockets[NETLINK], "protocol", SOL_SOCKET, SO_PROTOCOL);
}

static void open_packet(void) {
  sockets[PACKET] = may(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  struct sockaddr_ll own = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ARP), .sll_ifindex = 1};
  may(bind(sockets[PACKET], (struct sockaddr *)&own, sizeof own));
}
static void tell_packet(void) {
  struct sockaddr_ll own = {0};
  getsockname(sockets[PACKET], (struct sockaddr *)&own, &(socklen_t){sizeof own});
  tell("protocol %x interface %d", ntohs(own.sll_protocol), own.sll_ifindex);
}

static void open_raw(void) { sockets[RAW] = may(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP)); }
static void tell_raw(void) { tell_option(sockets[RAW], "protocol", SOL_SOCKET, SO_PROTOCOL); }

static void open_ping(void) { sockets[PING] = may(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_ICMP)); }
static void tell_ping(void) { tell_option(sockets[PING], "protocol", SOL_SOCKET, SO_PROTOCOL); }

static void bind_device(void) {
  sockets[BOUND] = bound_socket(SOCK_DGRAM);
  may(setsockopt(sockets[BOUND], SOL_SOCKET, SO_BINDTODEVICE, "lo", 3));
}
static void tell_device(void) {
  char name[32] = "";
  socklen_t length = sizeof name;
  long result = getsockopt(sockets[BOUND], SOL_SOCKET, SO_BINDTODEVICE, name, &length);
  tell("device %s %s", outcome(result), name);
}

static socklen_t unix_address(struct sockaddr_un *address, bool abstract) {
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  if (abstract) return offsetof(struct sockaddr_un, sun_path) + 1 + sprintf(address->sun_path + 1, "gpuprocess-%d", getpid());
  char *path = own_path("socket");
  strncpy(address->sun_path, path, sizeof address->sun_path - 1);
  free(path);
  return sizeof *address;
}

static void listen_at(int kind, bool abstract) {
  struct sockaddr_un own;
  socklen_t length = unix_address(&own, abstract);
  sockets[kind] = may(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  may(bind(sockets[kind], (struct sockaddr *)&own, length));
  may(listen(sockets[kind], 5));
}
static void tell_at(int kind, bool abstract) {
  struct sockaddr_un own;
  socklen_t length = unix_address(&own, abstract);
  int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  tell("connect %s", outcome(connect(client, (struct sockaddr *)&own, length)));
  int server = accept4(sockets[kind], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  tell("accept %s", outcome(server));
  if (server >= 0) close(server);
  close(client);
}
static void listen_path(void) { listen_at(UNIX_PATH, false); }
static void tell_path(void) { tell_at(UNIX_PATH, false); }
static void listen_abstract(void) { listen_at(ABSTRACT, true); }
static void tell_abstract(void) { tell_at(ABSTRACT, true); }

static void listen_unlinked(void) {
  listen_path();
  may(unlink(own_path("socket")));
}
static void tell_unlinked(void) { tell_option(sockets[UNIX_PATH], "listens", SOL_SOCKET, SO_ACCEPTCONN); }

static int of_other[16];
enum { SIX_UDP, SIX_OPTIONS, CORKED, FILTERED, CONGESTION, UNBOUND, BOUND_ONLY, UDP_OPTIONS, GROUP_SIX, EVENTS, TIMEOUTS, DATAGRAM };

static void open_udp_six(void) {
  of_other[SIX_UDP] = may(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  struct sockaddr_in6 own = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  may(bind(of_other[SIX_UDP], (struct sockaddr *)&own, sizeof own));
  set_option(of_other[SIX_UDP], IPPROTO_IPV6, IPV6_UNICAST_HOPS, 9);
  set_option(of_other[SIX_UDP], IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
  set_option(of_other[SIX_UDP], IPPROTO_IPV6, IPV6_TCLASS, 0x20);
  set_option(of_other[SIX_UDP], IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 7);
}
static void tell_udp_six(void) {
  tell_option(of_other[SIX_UDP], "hops", IPPROTO_IPV6, IPV6_UNICAST_HOPS);
  tell_option(of_other[SIX_UDP], "packet-info", IPPROTO_IPV6, IPV6_RECVPKTINFO);
  tell_option(of_other[SIX_UDP], "class", IPPROTO_IPV6, IPV6_TCLASS);
  tell_option(of_other[SIX_UDP], "multicast-hops", IPPROTO_IPV6, IPV6_MULTICAST_HOPS);
}

static void open_udp_options(void) {
  of_other[UDP_OPTIONS] = bound_socket(SOCK_DGRAM);
  setsockopt(of_other[UDP_OPTIONS], IPPROTO_UDP, 103 /* UDP_SEGMENT */, &(int){1000}, sizeof(int));
  setsockopt(of_other[UDP_OPTIONS], IPPROTO_UDP, 104 /* UDP_GRO */, &(int){1}, sizeof(int));
  set_option(of_other[UDP_OPTIONS], IPPROTO_IP, IP_MULTICAST_TTL, 5);
  set_option(of_other[UDP_OPTIONS], IPPROTO_IP, IP_MULTICAST_LOOP, 0);
  set_option(of_other[UDP_OPTIONS], IPPROTO_IP, IP_RECVERR, 1);
  set_option(of_other[UDP_OPTIONS], SOL_SOCKET, SO_RCVBUF, 100000);
}
static void tell_udp_options(void) {
  tell_option(of_other[UDP_OPTIONS], "segment", IPPROTO_UDP, 103);
  tell_option(of_other[UDP_OPTIONS], "gro", IPPROTO_UDP, 104);
  tell_option(of_other[UDP_OPTIONS], "multicast-ttl", IPPROTO_IP, IP_MULTICAST_TTL);
  tell_option(of_other[UDP_OPTIONS], "multicast-loop", IPPROTO_IP, IP_MULTICAST_LOOP);
  tell_option(of_other[UDP_OPTIONS], "errors", IPPROTO_IP, IP_RECVERR);
  tell_option(of_other[UDP_OPTIONS], "receive-buffer", SOL_SOCKET, SO_RCVBUF);
}

/* A datagram that is sent when the cork is taken out. */
static void cork(void) {
  of_other[CORKED] = bound_socket(SOCK_DGRAM);
  struct sockaddr_in self = address_of(of_other[CORKED]);
  may(connect(of_other[CORKED], (struct sockaddr *)&self, sizeof self));
  set_option(of_other[CORKED], IPPROTO_UDP, 1 /* UDP_CORK */, 1);
  may(send(of_other[CORKED], "hello", 5, 0));
}
static void tell_cork(void) { tell_option(of_other[CORKED], "cork", IPPROTO_UDP, 1); }

/* A datagram that waits in the socket: CRIU leaves it out, as a network may, so it is not told. */
static void receive_datagram(void) {
  of_other[DATAGRAM] = bound_socket(SOCK_DGRAM);
  struct sockaddr_in self = address_of(of_other[DATAGRAM]);
  may(sendto(of_other[DATAGRAM], "hello", 5, 0, (struct sockaddr *)&self, sizeof self));
}
static void tell_datagram(void) { tell_address(of_other[DATAGRAM]); }

/* Accepts no datagram. */
static void filter_socket(void) {
  struct sock_filter program[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
  struct sock_fprog all = {1, program};
  of_other[FILTERED] = bound_socket(SOCK_DGRAM);
  may(setsockopt(of_other[FILTERED], SOL_SOCKET, SO_ATTACH_FILTER, &all, sizeof all));
  set_option(of_other[FILTERED], SOL_SOCKET, SO_LOCK_FILTER, 1);
}
static void tell_filter(void) {
  struct sockaddr_in self = address_of(of_other[FILTERED]);
  sendto(of_other[FILTERED], "x", 1, 0, (struct sockaddr *)&self, sizeof self);
  tell("received %s", outcome(recv(of_other[FILTERED], &(char){0}, 1, MSG_DONTWAIT)));
  tell_option(of_other[FILTERED], "locked", SOL_SOCKET, SO_LOCK_FILTER);
}

static void choose_congestion(void) {
  of_other[CONGESTION] = bound_socket(SOCK_STREAM);
  may(setsockopt(of_other[CONGESTION], IPPROTO_TCP, TCP_CONGESTION, "reno", 4));
  may(listen(of_other[CONGESTION], 3));
}
static void tell_congestion(void) {
  char name[32] = "";
  long result = getsockopt(of_other[CONGESTION], IPPROTO_TCP, TCP_CONGESTION, name, &(socklen_t){sizeof name});
  tell("congestion %s %s", outcome(result), name);
}

static void open_only(void) { of_other[UNBOUND] = may(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }
static void tell_unbound(void) { tell_option(of_other[UNBOUND], "listens", SOL_SOCKET, SO_ACCEPTCONN); }
static void bind_only(void) { of_other[BOUND_ONLY] = bound_socket(SOCK_STREAM); }
static void tell_bound(void) { tell_address(of_other[BOUND_ONLY]); }

static void set_timeouts(void) {
  of_other[TIMEOUTS] = bound_socket(SOCK_DGRAM);
  struct timeval time = {77, 0};
  may(setsockopt(of_other[TIMEOUTS], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
  may(setsockopt(of_other[TIMEOUTS], SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time));
  set_option(of_other[TIMEOUTS], SOL_SOCKET, SO_NO_CHECK, 1);
  set_option(of_other[TIMEOUTS], SOL_SOCKET, SO_TIMESTAMPNS, 1);
}
static void tell_set_timeouts(void) {
  struct timeval time = {0};
  long result = getsockopt(of_other[TIMEOUTS], SOL_SOCKET, SO_RCVTIMEO, &time, &(socklen_t){sizeof time});
  tell("receive %s %ld", outcome(result), (long)time.tv_sec);
  tell_option(of_other[TIMEOUTS], "no-check", SOL_SOCKET, SO_NO_CHECK);
  tell_option(of_other[TIMEOUTS], "timestamps", SOL_SOCKET, SO_TIMESTAMPNS);
}

static void join_six(void) {
  of_other[GROUP_SIX] = may(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  struct ipv6_mreq member = {.ipv6mr_interface = 1};
  inet_pton(AF_INET6, "ff02::1234", &member.ipv6mr_multiaddr);
  may(setsockopt(of_other[GROUP_SIX], IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &member, sizeof member));
}
static void tell_group_six(void) {
  struct ipv6_mreq member = {.ipv6mr_interface = 1};
  inet_pton(AF_INET6, "ff02::1234", &member.ipv6mr_multiaddr);
  long result = setsockopt(of_other[GROUP_SIX], IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &member, sizeof member);
  tell("join again %s", outcome(result));
  if (result == 0) setsockopt(of_other[GROUP_SIX], IPPROTO_IPV6, IPV6_DROP_MEMBERSHIP, &member, sizeof member);
}

static void hear_devices(void) {
  of_other[EVENTS] = may(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT));
  struct sockaddr_nl own = {.nl_family = AF_NETLINK, .nl_groups = 1};
  may(bind(of_other[EVENTS], (struct sockaddr *)&own, sizeof own));
}
static void tell_devices(void) { tell_option(of_other[EVENTS], "protocol", SOL_SOCKET, SO_PROTOCOL); }

static void open_algorithm(void) { may(socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)); }
static void open_udplite(void) { may(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDPLITE)); }
static void open_sctp(void) { may(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_SCTP)); }
static void open_raw_six(void) { may(socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMPV6)); }

static void open_vsock(void) { sockets[VSOCK] = may(socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

const struct attribute socket_attributes[] = {
    {"tcp-listener", EARLY, listen_plainly, tell_listener},
    {"tcp-options", EARLY, listen_with_options, tell_options},
    {"tcp-keepalive", EARLY, listen_with_timeouts, tell_timeouts},
    {"tcp6-listener", EARLY, listen_six, tell_six},
    {"mptcp-listener", EARLY, listen_multipath, tell_multipath},
    {"udp", EARLY, open_udp, tell_udp},
    {"udp-connected", EARLY, connect_udp, tell_connected_udp},
    {"multicast", EARLY, join_multicast, tell_multicast},
    {"netlink", EARLY, open_netlink, tell_netlink},
    {"netlink-group", EARLY, open_netlink, tell_netlink},
    {"packet-socket", EARLY, open_packet, tell_packet},
    {"raw-socket", EARLY, open_raw, tell_raw},
    {"ping-socket", EARLY, open_ping, tell_ping},
    {"bound-to-device", EARLY, bind_device, tell_device},
    {"unix-listener", EARLY, listen_path, tell_path},
    {"unix-abstract", EARLY, listen_abstract, tell_abstract},
    {"unix-unlinked", EARLY, listen_unlinked, tell_unlinked},
    {"udp6", EARLY, open_udp_six, tell_udp_six},
    {"udp-options", EARLY, open_udp_options, tell_udp_options},
    {"udp-cork", EARLY, cork, tell_cork},
    {"udp-datagram", EARLY, receive_datagram, tell_datagram},
    {"udp-timeouts", EARLY, set_timeouts, tell_set_timeouts},
    {"udplite", EARLY, open_udplite, NULL},
    {"socket-filter", EARLY, filter_socket, tell_filter},
    {"tcp-congestion", EARLY, choose_congestion, tell_congestion},
    {"tcp-unbound", EARLY, open_only, tell_unbound},
    {"tcp-bound", EARLY, bind_only, tell_bound},
    {"sctp", EARLY, open_sctp, NULL},
    {"multicast6", EARLY, join_six, tell_group_six},
    {"netlink-devices", EARLY, hear_devices, tell_devices},
    {"alg-socket", EARLY, open_algorithm, NULL},
    {"raw6-socket", EARLY, open_raw_six, NULL},
    {"vsock", EARLY, open_vsock, NULL},
    {0},
};
