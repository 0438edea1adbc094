/* What a process may not do any more. */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attributes.h"

#ifndef SYS_mseal
#define SYS_mseal 462
#endif
#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif

static void no_new_rights(void) { may(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)); }

static void no_executable_data(void) { may(prctl(PR_SET_MDWE, 1 /* PR_MDWE_REFUSE_EXEC_GAIN */, 0, 0, 0)); }

static void *page(int protection) { return mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }

static void tell_executable(void) {
  void *both = page(PROT_READ | PROT_WRITE | PROT_EXEC);
  tell("write and execute %s", both == MAP_FAILED ? outcome(-1) : "ok");
  if (both != MAP_FAILED) munmap(both, 4096);
}

/* Files may be written in this process's directory and nowhere else. */
static void confine_writes(void) {
  struct landlock_ruleset_attr attributes = {.handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE};
  int rules = may(syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0));
  struct landlock_path_beneath_attr own = {.allowed_access = LANDLOCK_ACCESS_FS_WRITE_FILE,
                                           .parent_fd = may(open(own_path("."), O_PATH | O_CLOEXEC))};
  may(syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &own, 0));
  no_new_rights();
  may(syscall(SYS_landlock_restrict_self, rules, 0));
  close(own.parent_fd);
  close(rules);
}

static void tell_writes(void) {
  int file = open("/dev/null", O_WRONLY | O_CLOEXEC);
  tell("write elsewhere %s", outcome(file));
  if (file >= 0) close(file);
}

/* mknod answers EDEADLK, and nothing else does. */
static void filter(void) {
  struct sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mknodat, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EDEADLK),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog all = {sizeof program / sizeof program[0], program};
  no_new_rights();
  may(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all));
}

static void tell_filter(void) { tell("mknod %s", outcome(syscall(SYS_mknodat, AT_FDCWD, "/", S_IFREG, 0))); }

static char *sealed;

static void seal(void) {
  sealed = page(PROT_READ);
  may(syscall(SYS_mseal, sealed, 4096L, 0L));
}

static void tell_seal(void) {
  tell("change %s", outcome(mprotect(sealed, 4096, PROT_READ | PROT_WRITE)));
  mprotect(sealed, 4096, PROT_READ);
}

static void keep_key(void) {
  may(syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, "gpuprocess-attributes"));
  may(syscall(SYS_add_key, "user", "gpuprocess:key", "secret", 6L, KEY_SPEC_SESSION_KEYRING));
}

static void tell_key(void) {
  tell("key %s", outcome(syscall(SYS_request_key, "user", "gpuprocess:key", NULL, 0L)));
}

static void change_root(void) {
  may(mkdir(own_path("root"), 0755));
  may(mkdir(own_path("root/inside"), 0755));
}

static struct child *confined;

static void enter_root(void) {
  may(chroot(own_path("root")));
  may(chdir("/"));
}

static void tell_root(void) { tell("inside %s proc %s", outcome(access("/inside", F_OK)), outcome(access("/proc/self", F_OK))); }

static void confine_child(void) {
  change_root();
  confined = start_child(enter_root, tell_root);
}

static void tell_confined(void) { ask_child(confined); }

static struct child *filtered;
static void filter_child(void) { filtered = start_child(filter, tell_filter); }
static void tell_filtered(void) { ask_child(filtered); }

static struct child *landlocked;
static void landlock_child(void) { landlocked = start_child(confine_writes, tell_writes); }
static void tell_landlocked(void) { ask_child(landlocked); }

const struct attribute confinement_attributes[] = {
    {"no-new-privs", LATE, no_new_rights, NULL},
    {"mdwe", LATE, no_executable_data, tell_executable},
    {"landlock", LATE, confine_writes, tell_writes},
    {"seccomp", LATE, filter, tell_filter},
    {"mseal", EARLY, seal, tell_seal},
    {"keyring", EARLY, keep_key, tell_key},
    {"child-chroot", EARLY, confine_child, tell_confined},
    {"child-seccomp", EARLY, filter_child, tell_filtered},
    {"child-landlock", EARLY, landlock_child, tell_landlocked},
    {0},
};
