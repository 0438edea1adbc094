/* Runs CRIU with the capabilities of this file, for an ordinary user. The CRIU that bin/criu installs is a script and can have
 * none itself.
 *
 *   with-capabilities ARGUMENT...    CRIU is the macro of that name */
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void must(long result, const char *what) {
  if (result == 0) return;
  perror(what);
  exit(1);
}

int main(int argc, char **argv) {
  (void)argc;
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct sets[2];
  must(syscall(SYS_capget, &header, sets), "capget");
  for (int i = 0; i < 2; i++) sets[i].inheritable = sets[i].permitted;
  must(syscall(SYS_capset, &header, sets), "capset");
  for (int each = 0; each < 64; each++)
    if (sets[each / 32].permitted >> each % 32 & 1) must(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, each, 0, 0), "prctl");
  execv(CRIU, argv);
  perror(CRIU);
  return 1;
}
