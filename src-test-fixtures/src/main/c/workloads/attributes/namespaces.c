/* Namespaces of the root, and of a child. */
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attributes.h"
#include "keeper.h"

static void enter(int flag) { may(unshare(flag)); }

static void enter_mounts(void) {
  enter(CLONE_NEWNS);
  may(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
}

/* As systemd's PrivateTmp and Slurm's job_container/tmpfs. */
static void mount_tmpfs(void) {
  enter_mounts();
  may(mount("own", "/var/tmp", "tmpfs", MS_NOSUID, "size=1m,mode=0711"));
  int file = may(open("/var/tmp/kept", O_WRONLY | O_CREAT | O_CLOEXEC, 0640));
  may(write(file, "kept", 4));
  close(file);
  /* The standard files belong to the mounts of before; those of "ns-mount-bind" stay so. */
  for (int number = 0; number < 3 && !isatty(0); number++) {
    file = may(open("/dev/null", O_RDWR));
    may(dup2(file, number));
    close(file);
  }
}

static void tell_mounts(void) {
  struct statfs kind = {0};
  struct stat state = {0};
  tell("statfs %s type %lx flags %lx", outcome(statfs("/var/tmp", &kind)), (long)kind.f_type, (long)kind.f_flags & 0xff);
  tell("mode %s %o", outcome(stat("/var/tmp", &state)), state.st_mode);
  tell("file %s", first_line("/var/tmp/kept"));
}

static void bind_read_only(void) {
  enter_mounts();
  mkdir(own_path("bound"), 0755);
  may(mount("/etc", own_path("bound"), NULL, MS_BIND, NULL));
  may(mount(NULL, own_path("bound"), NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL));
}

static void tell_bind(void) {
  tell("write %s", outcome(open(own_path("bound/forbidden"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)));
  tell("read %s", outcome(access(own_path("bound/passwd"), R_OK)));
}

static void enter_network(void) {
  enter(CLONE_NEWNET);
  int socket_ = may(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
  may(ioctl(socket_, SIOCSIFFLAGS, &request));
  close(socket_);
}

static void tell_network(void) {
  struct if_nameindex *all = if_nameindex();
  for (struct if_nameindex *each = all; each && each->if_name; each++) tell("interface %s", each->if_name);
  if (all) if_freenameindex(all);
  int socket_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  struct ifreq request = {.ifr_name = "lo"};
  ioctl(socket_, SIOCGIFFLAGS, &request);
  tell("loopback %s", request.ifr_flags & IFF_UP ? "up" : "down");
  close(socket_);
}

static void enter_host_name(void) {
  enter(CLONE_NEWUTS);
  may(sethostname("own.example", 11));
}

static void tell_host_name(void) {
  struct utsname names;
  uname(&names);
  tell("host %s", names.nodename);
}

static void enter_ipc(void) {
  enter(CLONE_NEWIPC);
  int file = open("/proc/sys/kernel/shmmax", O_WRONLY | O_CLOEXEC);
  if (file >= 0 && write(file, "123456789", 9) < 0) impossible("shmmax");
  if (file >= 0) close(file);
}

static void tell_ipc(void) { tell("shmmax %s", first_line("/proc/sys/kernel/shmmax")); }

static void enter_pids(void) { has_init = true; }

static void tell_pid(void) { tell("pid %d", getpid()); }

static void enter_users(void) {
  char text[64];
  uid_t user = geteuid();
  gid_t group = getegid();
  enter(CLONE_NEWUSER);
  int file = may(open("/proc/self/setgroups", O_WRONLY | O_CLOEXEC));
  may(write(file, "deny", 4));
  close(file);
  file = may(open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC));
  may(write(file, text, snprintf(text, sizeof text, "0 %d 1", user)));
  close(file);
  file = may(open("/proc/self/gid_map", O_WRONLY | O_CLOEXEC));
  may(write(file, text, snprintf(text, sizeof text, "0 %d 1", group)));
  close(file);
}

static void tell_users(void) { tell("map %s", first_line("/proc/self/uid_map")); }

/* A process enters a time namespace by its exec. */
static void enter_time(void) {
  enter(CLONE_NEWTIME);
  int file = may(open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC));
  may(write(file, "monotonic 100000 0", 18));
  close(file);
}

static void tell_time(void) {
  struct timespec monotonic, boot;
  clock_gettime(CLOCK_MONOTONIC, &monotonic);
  clock_gettime(CLOCK_BOOTTIME, &boot);
  static time_t last;
  tell("ahead %d forwards %d", monotonic.tv_sec - boot.tv_sec > 50000, monotonic.tv_sec >= last);
  last = monotonic.tv_sec;
}

static void enter_groups(void) { enter(CLONE_NEWCGROUP); }
static void tell_groups(void) { tell("group %s", first_line("/proc/self/cgroup")); }

static struct child *inside;
static void tell_inside(void) { ask_child(inside); }

static void child_mounts(void) { inside = start_child(mount_tmpfs, tell_mounts); }
static void child_network(void) { inside = start_child(enter_network, tell_network); }
static void child_host_name(void) { inside = start_child(enter_host_name, tell_host_name); }
static void child_ipc(void) { inside = start_child(enter_ipc, tell_ipc); }
static void child_users(void) { inside = start_child(enter_users, tell_users); }
static void child_groups(void) { inside = start_child(enter_groups, tell_groups); }

/* Only children enter these two. */
static void start_grandchild(int flag, void (*tell_value)(void)) {
  inside = new_child();
  pid_t between = may(fork());
  if (between == 0) {
    enter(flag);
    start_child_in(inside, NULL, tell_value);
    for (;;) pause();
  }
  while (!has_answered(inside)) {
    if (waitpid(between, NULL, WNOHANG) == between) _exit(77); /* it has reported why */
    pause_shortly();
  }
}

static void child_pids(void) { start_grandchild(CLONE_NEWPID, tell_pid); }
static void child_time(void) { start_grandchild(CLONE_NEWTIME, NULL); }

const struct attribute namespace_attributes[] = {
    {"ns-mount", BEFORE_EXEC, mount_tmpfs, tell_mounts},
    {"ns-mount-bind", BEFORE_EXEC, bind_read_only, tell_bind},
    {"ns-net", BEFORE_EXEC, enter_network, tell_network},
    {"ns-uts", BEFORE_EXEC, enter_host_name, tell_host_name},
    {"ns-ipc", BEFORE_EXEC, enter_ipc, tell_ipc},
    {"ns-pid", TERMINAL, enter_pids, tell_pid},
    {"ns-user", BEFORE_EXEC, enter_users, tell_users},
    {"ns-time", BEFORE_EXEC, enter_time, tell_time},
    {"ns-cgroup", BEFORE_EXEC, enter_groups, tell_groups},
    {"child-ns-mount", EARLY, child_mounts, tell_inside},
    {"child-ns-net", EARLY, child_network, tell_inside},
    {"child-ns-uts", EARLY, child_host_name, tell_inside},
    {"child-ns-ipc", EARLY, child_ipc, tell_inside},
    {"child-ns-pid", EARLY, child_pids, tell_inside},
    {"child-ns-user", EARLY, child_users, tell_inside},
    {"child-ns-time", EARLY, child_time, tell_inside},
    {"child-ns-cgroup", EARLY, child_groups, tell_inside},
    {0},
};
