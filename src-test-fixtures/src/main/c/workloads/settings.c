#include "settings.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "udp.h"

#define SET_MDWE 65
#define GET_MDWE 66
#define SET_MEMORY_MERGE 67
#define GET_MEMORY_MERGE 68
#define CALL_MSEAL 462
#define CALL_LANDLOCK_CREATE 444
#define CALL_LANDLOCK_RESTRICT 446
#define LANDLOCK_MAKE_SYM (1 << 12)
#define POLICY_BIND 2
#define POLICY_OF_ADDRESS 2
#define JOIN_SESSION 1
#define SEARCH 10
#define SESSION -3
#define AREA (4 * 4096)
#define SHARED 65536

static char *sealed, *bound;
static uint64_t *in_shared, in_private;

static char *area(void) {
  char *made = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return NULL;
  /* Not one mapping with its neighbours. */
  madvise(made, AREA, MADV_DONTDUMP);
  made[0] = 1;
  return made;
}

static long confine(void) {
  struct {
    uint64_t files, network;
  } rules = {LANDLOCK_MAKE_SYM, 0};
  int set = (int)syscall(CALL_LANDLOCK_CREATE, &rules, sizeof rules, 0);
  if (set < 0) return -1;
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  long result = syscall(CALL_LANDLOCK_RESTRICT, set, 0);
  close(set);
  return result;
}

/* All threads may no longer make memory executable, which the driver does not. */
static long filter(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_READ | PROT_EXEC, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

static long join(void) {
  if (syscall(SYS_keyctl, JOIN_SESSION, NULL) < 0) return -1;
  return syscall(SYS_add_key, "user", "ticket", "secret", 6, SESSION);
}

static long set(const char *name) {
  unsigned long first = 1;
  if (strcmp(name, "mdwe") == 0) return prctl(SET_MDWE, 1, 0, 0, 0);
  if (strcmp(name, "seccomp") == 0) return filter();
  if (strcmp(name, "landlock") == 0) return confine();
  if (strcmp(name, "seal") == 0) return syscall(CALL_MSEAL, sealed = area(), AREA, 0);
  if (strcmp(name, "keys") == 0) return join();
  if (strcmp(name, "policy") == 0) return syscall(SYS_set_mempolicy, POLICY_BIND, &first, 64);
  if (strcmp(name, "bind") == 0) return syscall(SYS_mbind, bound = area(), AREA, POLICY_BIND, &first, 64, 0);
  if (strcmp(name, "personality") == 0) return personality(ADDR_NO_RANDOMIZE);
  if (strcmp(name, "merge") == 0) return prctl(SET_MEMORY_MERGE, 1, 0, 0, 0);
  errno = EINVAL;
  return -1;
}

static int policy(char *address) {
  int mode = -1;
  syscall(SYS_get_mempolicy, &mode, NULL, 0, address, address == NULL ? 0 : POLICY_OF_ADDRESS);
  return mode;
}

static bool is_confined(void) {
  char name[64];
  snprintf(name, sizeof name, "/tmp/settings-%d", (int)getpid());
  unlink(name);
  bool may = symlink("nowhere", name) == 0;
  unlink(name);
  return !may;
}

static void show(char *reply) {
  bool is_sealed = sealed != NULL && mprotect(sealed, AREA, PROT_READ | PROT_WRITE) != 0;
  snprintf(reply, ANSWER_SIZE, "mdwe=%d landlock=%d seal=%d keys=%d policy=%d bind=%d personality=%x merge=%d",
           prctl(GET_MDWE, 0, 0, 0, 0) > 0, is_confined(), is_sealed,
           syscall(SYS_keyctl, SEARCH, SESSION, "user", "ticket", 0) > 0, policy(NULL), bound == NULL ? 0 : policy(bound),
           (unsigned)personality(0xffffffff), prctl(GET_MEMORY_MERGE, 0, 0, 0, 0) > 0);
}

static void share(const char *file, char *reply) {
  int fd = open(file, O_RDWR | O_CREAT, 0640);
  void *memory = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, SHARED) == 0) memory = mmap(NULL, SHARED, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0) close(fd);
  if (memory == MAP_FAILED) {
    snprintf(reply, ANSWER_SIZE, "error %s", strerror(errno));
    return;
  }
  in_shared = memory;
  in_private = 0;
  *in_shared = 0;
  strcpy(reply, "ok");
}

#define GROUP "239.255.77.77"

static const struct {
  int level, name, value;
} tcp_options[] = {
    {IPPROTO_TCP, TCP_USER_TIMEOUT, 12345}, {IPPROTO_TCP, TCP_DEFER_ACCEPT, 7}, {IPPROTO_TCP, TCP_FASTOPEN, 33},
    {IPPROTO_TCP, TCP_SYNCNT, 3}, {IPPROTO_TCP, TCP_MAXSEG, 1000}, {IPPROTO_TCP, TCP_NOTSENT_LOWAT, 54321}, {IPPROTO_TCP, TCP_KEEPCNT, 4},
    {IPPROTO_IP, IP_TOS, 0x20}, {IPPROTO_IP, IP_TTL, 77}, {IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT},
    {IPPROTO_IP, IP_TRANSPARENT, 1}, {IPPROTO_IP, IP_RECVTOS, 1}, {SOL_SOCKET, SO_BUSY_POLL, 40}};

static int listener = -1, member = -1;

static void make_sockets(char *reply) {
  struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  struct ip_mreqn join = {.imr_ifindex = 1};
  int loop = 1;
  inet_aton(GROUP, &join.imr_multiaddr);
  listener = socket(AF_INET, SOCK_STREAM, 0);
  for (size_t i = 0; i < sizeof tcp_options / sizeof *tcp_options; i++)
    setsockopt(listener, tcp_options[i].level, tcp_options[i].name, &tcp_options[i].value, sizeof(int));
  member = socket(AF_INET, SOCK_DGRAM, 0);
  bool made = bind(listener, (struct sockaddr *)&any, sizeof any) == 0 && listen(listener, 5) == 0;
  any.sin_addr.s_addr = 0;
  made = made && bind(member, (struct sockaddr *)&any, sizeof any) == 0 &&
         setsockopt(member, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join) == 0 &&
         setsockopt(member, IPPROTO_IP, IP_MULTICAST_LOOP, &loop, sizeof loop) == 0;
  int all = 0;
  setsockopt(member, IPPROTO_IP, IP_MULTICAST_ALL, &all, sizeof all);
  snprintf(reply, ANSWER_SIZE, made ? "ok" : "impossible: %s", strerror(errno));
}

static bool receives(void) {
  struct sockaddr_in to;
  socklen_t length = sizeof to;
  char packet[8];
  int sender = socket(AF_INET, SOCK_DGRAM, 0);
  struct ip_mreqn by = {.imr_ifindex = 1};
  getsockname(member, (struct sockaddr *)&to, &length);
  inet_aton(GROUP, &to.sin_addr);
  setsockopt(sender, IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof by);
  while (recv(member, packet, sizeof packet, MSG_DONTWAIT) >= 0) continue;
  ssize_t sent = sendto(sender, "hello", 5, 0, (struct sockaddr *)&to, sizeof to);
  close(sender);
  struct pollfd wait = {.fd = member, .events = POLLIN};
  return sent == 5 && poll(&wait, 1, 1000) == 1;
}

static void show_sockets(char *reply) {
  size_t length = 0;
  for (size_t i = 0; i < sizeof tcp_options / sizeof *tcp_options; i++) {
    int value = -1;
    socklen_t size = sizeof value;
    getsockopt(listener, tcp_options[i].level, tcp_options[i].name, &value, &size);
    length += (size_t)snprintf(reply + length, ANSWER_SIZE - length, "%d ", value);
  }
  snprintf(reply + length, ANSWER_SIZE - length, "%s", receives() ? "received" : "nothing");
}

bool settings_answer(const char *request, char *reply) {
  if (strcmp(request, "settings") == 0) {
    show(reply);
    return true;
  }
  if (strncmp(request, "share ", 6) == 0) {
    share(request + 6, reply);
    return true;
  }
  if (strcmp(request, "sockets") == 0) {
    make_sockets(reply);
    return true;
  }
  if (strcmp(request, "socket") == 0) {
    show_sockets(reply);
    return true;
  }
  if (strcmp(request, "shared") == 0 && in_shared != NULL) {
    ++*in_shared;
    snprintf(reply, ANSWER_SIZE, "%llu %llu", (unsigned long long)*in_shared, (unsigned long long)++in_private);
    return true;
  }
  if (strncmp(request, "setting ", 8) != 0) return false;
  if (set(request + 8) < 0) {
    snprintf(reply, ANSWER_SIZE, "impossible: %s", strerror(errno));
  } else {
    strcpy(reply, "ok");
  }
  return true;
}
