/* Users, groups and capabilities. */
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attributes.h"

static void some_groups(void) { may(setgroups(4, (gid_t[]){5, 6, 7, 4000})); }

static void many_groups(void) {
  static gid_t groups[1000];
  for (int i = 0; i < 1000; i++) groups[i] = 20000 + i;
  may(setgroups(1000, groups));
}

static void capabilities(unsigned long effective, unsigned long permitted, unsigned long inheritable) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct now[2], data[2] = {0};
  may(syscall(SYS_capget, &header, now));
  for (int i = 0; i < 2; i++) {
    data[i].permitted = now[i].permitted & (unsigned)(permitted >> 32 * i);
    data[i].effective = data[i].permitted & (unsigned)(effective >> 32 * i);
    data[i].inheritable = data[i].permitted & (unsigned)(inheritable >> 32 * i);
  }
  may(syscall(SYS_capset, &header, data));
}

static const unsigned long KEPT = 1UL << CAP_KILL | 1UL << CAP_CHOWN | 1UL << CAP_DAC_OVERRIDE | 1UL << CAP_SETPCAP;

static void few_capabilities(void) { capabilities(KEPT, KEPT, 1UL << CAP_KILL); }
static void no_capabilities(void) { capabilities(0, 0, 0); }
static void ineffective(void) { capabilities(1UL << CAP_KILL, ~0UL, 0); }

static void ambient(void) {
  capabilities(~0UL, ~0UL, 1UL << CAP_KILL);
  may(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0));
}

static void small_bounding_set(void) { may(prctl(PR_CAPBSET_DROP, CAP_SYS_TIME)); }
static void no_root_rights(void) { may(prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED)); }

static void another_user(void) {
  may(setresgid(65534, 65534, 65534));
  may(setresuid(65534, 65534, 65534));
  may(prctl(PR_SET_DUMPABLE, 1));
}

static void effective_user(void) {
  may(setresuid(0, 65534, 0));
  may(prctl(PR_SET_DUMPABLE, 1));
}

static void file_user(void) {
  setfsuid(65534);
  setfsgid(65533);
}

static void tell_file_user(void) { tell("files as %d %d", setfsuid(-1), setfsgid(-1)); }

static struct child *child;
static void tell_user(void) { tell("user %d group %d", getuid(), getgid()); }
static void child_user(void) { child = start_child(another_user, tell_user); }
static void tell_child(void) { ask_child(child); }

/* The call of the kernel itself changes one thread alone. */
static atomic_int thread_user = -1;
static void *be_user(void *unused) {
  (void)unused;
  if (syscall(SYS_setresuid, 65534, 65534, 65534) == 0)
    for (;; pause_shortly()) thread_user = (int)syscall(SYS_getuid);
  return NULL;
}
static void one_thread_user(void) {
  pthread_t thread;
  errno = pthread_create(&thread, NULL, be_user, NULL);
  if (errno) impossible("pthread_create: %s", strerror(errno));
  for (int left = 1000; thread_user < 0 && left > 0; left--) pause_shortly();
  if (thread_user < 0) impossible("setresuid");
}
static void tell_thread_user(void) {
  thread_user = -1;
  for (int left = 10000; thread_user < 0 && left > 0; left--) pause_shortly();
  tell("thread of user %d", thread_user);
}

static void tight_umask(void) { umask(0127); }

const struct attribute credential_attributes[] = {
    {"groups", EARLY, some_groups, NULL},
    {"groups-many", EARLY, many_groups, NULL},
    {"capabilities-few", LATE, few_capabilities, NULL},
    {"capabilities-none", LATE, no_capabilities, NULL},
    {"capabilities-ineffective", LATE, ineffective, NULL},
    {"capabilities-ambient", LATE, ambient, NULL},
    {"capabilities-bounding", LATE, small_bounding_set, NULL},
    {"securebits", LATE, no_root_rights, NULL},
    {"user", LATE, another_user, NULL},
    {"user-effective", LATE, effective_user, NULL},
    {"user-files", LATE, file_user, tell_file_user},
    {"user-child", EARLY, child_user, tell_child},
    {"user-thread", LATE, one_thread_user, tell_thread_user},
    {"umask", EARLY, tight_umask, NULL},
    {0},
};
