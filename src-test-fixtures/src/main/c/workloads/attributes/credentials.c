/* Users, groups and capabilities. */
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
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
    {"umask", EARLY, tight_umask, NULL},
    {0},
};
