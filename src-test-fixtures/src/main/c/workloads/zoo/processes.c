/* Trees of processes, and what one process is. */
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zoo.h"

static pid_t pid;

static void end_with_77(void) { _exit(77); }

static void make_zombie(void) {
  pid = child(end_with_77);
  siginfo_t info;
  must(waitid(P_PID, pid, &info, WEXITED | WNOWAIT));
}

static void still_zombie(void) {
  siginfo_t info;
  must(waitid(P_PID, pid, &info, WEXITED | WNOWAIT | WNOHANG));
  expect(info.si_pid == pid && info.si_code == CLD_EXITED && info.si_status == 77);
}

static void reap_zombie(void) {
  int status = 0;
  expect(waitpid(pid, &status, 0) == pid);
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 77);
  make_zombie();
}

static void sleep_on(void) {
  for (;;) pause();
}

static void stop_child(void) {
  pid = child(sleep_on);
  must(kill(pid, SIGSTOP));
  siginfo_t info;
  must(waitid(P_PID, pid, &info, WSTOPPED | WNOWAIT));
}

static char state_of(pid_t process) {
  char path[64], name[64], state = '?';
  snprintf(path, sizeof path, "/proc/%d/stat", process);
  FILE *file = fopen(path, "re");
  if (!file) bad("%s: %s", path, strerror(errno));
  int ignored;
  expect(fscanf(file, "%d (%63[^)]) %c", &ignored, name, &state) == 3);
  fclose(file);
  return state;
}

/* It takes CRIU a moment: it stops the child after the others go on. */
static void still_stopped(void) { await(state_of(pid) == 'T'); }

static void wake_stopped(void) {
  must(kill(pid, SIGCONT));
  await(state_of(pid) == 'S');
  must(kill(pid, SIGSTOP));
  await(state_of(pid) == 'T');
}

/* A tree: sessions, groups, and a child of a child, all counting in shared memory and watching who they are. */
struct member {
  atomic_ulong count;
  atomic_int pid;
};
static struct member *members;
enum { LEADER, FOLLOWER, OWN_SESSION, GRANDCHILD, MEMBERS };

static void count_as(int who) {
  pid_t session = getsid(0), group = getpgrp(), parent = getppid();
  members[who].pid = getpid();
  for (;; rest()) {
    expect(getpid() == members[who].pid);
    expect(getsid(0) == session && getpgrp() == group && getppid() == parent);
    members[who].count++;
  }
}

static void lead_group(void) {
  must(setpgid(0, 0));
  count_as(LEADER);
}

static void follow(void) {
  await(members[LEADER].pid != 0);
  must(setpgid(0, members[LEADER].pid));
  count_as(FOLLOWER);
}

static void be_grandchild(void) { count_as(GRANDCHILD); }

static void lead_session(void) {
  must(setsid());
  child(be_grandchild);
  count_as(OWN_SESSION);
}

static void grow_tree(void) {
  members = shared_memory(MEMBERS * sizeof *members);
  child(lead_group);
  child(follow);
  child(lead_session);
  for (int i = 0; i < MEMBERS; i++) await(members[i].pid != 0);
}

static void tree_lives(void) {
  for (int i = 0; i < MEMBERS; i++) {
    unsigned long before = members[i].count;
    await(members[i].count > before);
  }
  expect(getpgid(members[FOLLOWER].pid) == members[LEADER].pid);
  expect(getsid(members[GRANDCHILD].pid) == members[OWN_SESSION].pid);
}

/* Adopted by the tree's own subreaper, and not by init. */
static void orphan_itself(void) {
  pid_t between = getpid();
  if (must(fork()) == 0) {
    await(getppid() != between);
    count_as(GRANDCHILD);
  }
  _exit(0);
}

static void adopt(void) {
  members = shared_memory(MEMBERS * sizeof *members);
  must(prctl(PR_SET_CHILD_SUBREAPER, 1));
  pid_t between = child(orphan_itself);
  expect(waitpid(between, NULL, 0) == between);
  await(members[GRANDCHILD].count > 0);
}

static void has_adopted(void) {
  unsigned long before = members[GRANDCHILD].count;
  await(members[GRANDCHILD].count > before);
  int reaper = 0;
  must(prctl(PR_GET_CHILD_SUBREAPER, &reaper));
  expect(reaper == 1);
}

static char *home;

static void set_attributes(void) {
  home = own_path("home");
  must(mkdir(home, 0700));
  must(chdir(home));
  umask(0127);
  must(setrlimit(RLIMIT_NOFILE, &(struct rlimit){77, 777}));
  must(setrlimit(RLIMIT_CORE, &(struct rlimit){0, 12345678}));
  must(setpriority(PRIO_PROCESS, 0, 7));
  must(prctl(PR_SET_NAME, "attributes"));
  signal(SIGUSR1, SIG_IGN); /* sent when the parent ends */
  must(prctl(PR_SET_PDEATHSIG, SIGUSR1));
  int score = must(open("/proc/self/oom_score_adj", O_WRONLY));
  expect(write(score, "123", 3) == 3);
  must(close(score));
}

static void look_at_attributes(void) {
  char here[4096], name[16] = "";
  expect(getcwd(here, sizeof here) && strcmp(here, home) == 0);
  mode_t mask = umask(0127);
  expect(mask == 0127);
  struct rlimit limit;
  must(getrlimit(RLIMIT_NOFILE, &limit));
  expect(limit.rlim_cur == 77 && limit.rlim_max == 777);
  must(getrlimit(RLIMIT_CORE, &limit));
  expect(limit.rlim_cur == 0 && limit.rlim_max == 12345678);
  expect(getpriority(PRIO_PROCESS, 0) == 7);
  must(prctl(PR_GET_NAME, name));
  expect(strcmp(name, "attributes") == 0);
  int signal = 0;
  must(prctl(PR_GET_PDEATHSIG, &signal));
  /* set again when CRIU, the parent of a restored root, has exited */
  for (int wait = 0; signal == 0 && wait < 3000; wait++) {
    usleep(10000);
    must(prctl(PR_GET_PDEATHSIG, &signal));
  }
  expect(signal == SIGUSR1);
  char score[8] = "";
  int file = must(open("/proc/self/oom_score_adj", O_RDONLY));
  expect(read(file, score, 7) > 0 && atoi(score) == 123);
  must(close(file));
}

/* Root without most of root's rights. */
static const int KEPT = 1 << CAP_KILL | 1 << CAP_CHOWN;

static void drop_capabilities(void) {
  must(setgroups(3, (gid_t[]){5, 6, 7}));
  must(prctl(PR_CAPBSET_DROP, CAP_SYS_TIME));
  must(prctl(PR_SET_SECUREBITS, SECBIT_NOROOT));
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[2] = {{.effective = KEPT, .permitted = KEPT, .inheritable = 1 << CAP_KILL}};
  must(syscall(SYS_capset, &header, data));
  must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
}

static void look_at_capabilities(void) {
  gid_t groups[8];
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[2];
  must(syscall(SYS_capget, &header, data));
  expect(data[0].effective == KEPT && data[0].permitted == KEPT && data[0].inheritable == 1 << CAP_KILL);
  expect(prctl(PR_CAPBSET_READ, CAP_SYS_TIME) == 0 && prctl(PR_CAPBSET_READ, CAP_KILL) == 1);
  expect(prctl(PR_GET_SECUREBITS) == SECBIT_NOROOT);
  expect(getgroups(8, groups) == 3 && groups[0] == 5 && groups[2] == 7);
  expect(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
}

/* Another user. */
static void drop_rights(void) {
  if (prctl(PR_CAPBSET_READ, CAP_SYS_RESOURCE) != 1)
    impossible("CRIU needs CAP_SYS_RESOURCE to read the limits of another user's process");
  must(setresgid(65534, 65534, 65534));
  must(setresuid(65534, 65533, 65532));
}

static void look_at_rights(void) {
  uid_t real, effective, saved;
  must(getresuid(&real, &effective, &saved));
  expect(real == 65534 && effective == 65533 && saved == 65532);
  expect(getgid() == 65534);
}

/* mknod answers EDEADLK, and nothing else does. */
static void filter_calls(void) {
  struct sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mknodat, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EDEADLK),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {sizeof program / sizeof program[0], program};
  must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  may(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
}

static void still_filtered(void) {
  expect(syscall(SYS_mknodat, AT_FDCWD, "/", S_IFREG, 0) < 0 && errno == EDEADLK);
  expect(prctl(PR_GET_SECCOMP) == SECCOMP_MODE_FILTER);
}

static void set_scheduler(void) { may(sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0})); }

static void look_at_scheduler(void) { expect(sched_getscheduler(0) == SCHED_BATCH); }

/* Descriptors with numbers far apart, some of them the same file. */
static void spread_descriptors(void) {
  must(setrlimit(RLIMIT_NOFILE, &(struct rlimit){4096, 4096}));
  for (int i = 0; i < 300; i++) must(fcntl(must(open("/dev/null", O_WRONLY)), F_DUPFD_CLOEXEC, 1000 + 3 * i));
}

static void look_at_descriptors(void) {
  for (int i = 0; i < 300; i++) {
    expect(fcntl(1000 + 3 * i, F_GETFD) == FD_CLOEXEC);
    expect(fcntl(1001 + 3 * i, F_GETFD) < 0);
  }
}

const struct specimen process_specimens[] = {
    {"zombie", "", 0, make_zombie, still_zombie, reap_zombie},
    {"stopped-child", "", 0, stop_child, still_stopped, wake_stopped},
    {"sessions", "", 0, grow_tree, tree_lives, NULL},
    {"subreaper", "", 0, adopt, has_adopted, NULL},
    {"attributes", "", 0, set_attributes, look_at_attributes, NULL},
    {"capabilities", "", 0, drop_capabilities, look_at_capabilities, NULL},
    {"credentials", "", 0, drop_rights, look_at_rights, NULL},
    {"seccomp", "", 0, filter_calls, still_filtered, NULL},
    {"scheduler", "", 0, set_scheduler, look_at_scheduler, NULL},
    {"descriptors", "", 0, spread_descriptors, look_at_descriptors, NULL},
    {0},
};
