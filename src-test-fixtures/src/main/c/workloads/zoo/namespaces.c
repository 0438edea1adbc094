/* Trees in namespaces of their own, as containers are. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zoo.h"

static atomic_ulong *count;
static pid_t other;
static int one, two;

static void set_host_name(void) { must(sethostname("zoo.example", 11)); }

static void look_at_host_name(void) {
  struct utsname names;
  must(uname(&names));
  expect(strcmp(names.nodename, "zoo.example") == 0);
}

/* The first process of a pid namespace with a child; their numbers in there never change. */
static void count_on(void) {
  for (;; rest()) {
    expect(getppid() == 1);
    (*count)++;
  }
}

static void be_init(void) {
  expect(getpid() == 1);
  count = shared_memory(4096);
  other = child(count_on);
  expect(other == 2);
}

static void init_and_child_live(void) {
  expect(getpid() == 1);
  unsigned long before = *count;
  await(*count > before);
  must(kill(other, 0));
}

/* A network of its own: the loopback interface is up, with an address more, and a connection over it. */
static void open_network(void) {
  int socket_ = must(socket(AF_INET, SOCK_DGRAM, 0));
  struct ifreq request = {.ifr_name = "lo"};
  must(ioctl(socket_, SIOCGIFFLAGS, &request));
  request.ifr_flags |= IFF_UP;
  must(ioctl(socket_, SIOCSIFFLAGS, &request));
  must(close(socket_));
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(77), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int listener = must(socket(AF_INET, SOCK_STREAM, 0));
  must(bind(listener, (struct sockaddr *)&address, sizeof address));
  must(listen(listener, 1));
  one = must(socket(AF_INET, SOCK_STREAM, 0));
  must(connect(one, (struct sockaddr *)&address, sizeof address));
  two = must(accept(listener, NULL, NULL));
}

static void use_network(void) {
  char byte = 'n';
  expect(send(one, &byte, 1, MSG_NOSIGNAL) == 1 && recv(two, &byte, 1, 0) == 1 && byte == 'n');
}

/* A root of its own (see zoo.main.c) with mounts that only this tree sees; a tmpfs goes into the image. */
static void mount_own(void) {
  must(mount("proc", "/proc", "proc", 0, NULL));
  must(mkdir("/mount", 0700));
  must(mount("zoo", "/mount", "tmpfs", MS_NOSUID, "size=64k,mode=0700"));
  int fd = must(creat("/mount/kept", 0600));
  expect(write(fd, "kept", 4) == 4);
  must(close(fd));
}

static void look_at_mounts(void) {
  char text[5] = "";
  struct stat state;
  int fd = must(open("/mount/kept", O_RDONLY));
  expect(read(fd, text, 5) == 4 && strcmp(text, "kept") == 0);
  must(close(fd));
  must(stat("/proc/self", &state));
  struct statfs kind;
  must(statfs("/mount", &kind));
  expect(kind.f_type == TMPFS_MAGIC && (kind.f_flags & ST_NOSUID));
}

/* All of it: what a container is. */
static void be_container(void) {
  mount_own();
  set_host_name();
  open_network();
  be_init();
}

static void look_at_container(void) {
  look_at_mounts();
  look_at_host_name();
  use_network();
  init_and_child_live();
}

static void change_root(void) {
  char *root = own_path("root");
  must(mkdir(root, 0755));
  must(chroot(root));
  must(chdir("/"));
  must(mkdir("/inside", 0755));
}

static void look_at_root(void) {
  struct stat state;
  must(stat("/inside", &state));
  expect(stat("/proc/self", &state) < 0);
}

const struct specimen namespace_specimens[] = {
    {"uts-namespace", "", CLONE_NEWUTS, set_host_name, look_at_host_name, NULL},
    {"pid-namespace", "", CLONE_NEWPID, be_init, init_and_child_live, NULL},
    {"net-namespace", "tcp", CLONE_NEWNET, open_network, use_network, NULL},
    {"mount-namespace", "root", CLONE_NEWNS, mount_own, look_at_mounts, NULL},
    {"container", "root,tcp", CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC, be_container,
     look_at_container, NULL},
    {"chroot", "", 0, change_root, look_at_root, NULL},
    {0},
};
