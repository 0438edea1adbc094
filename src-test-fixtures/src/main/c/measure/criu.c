#include "criu.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *criu(void) {
  const char *named = getenv("MEASURE_CRIU");
  return named == NULL ? "criu" : named;
}

int criu_there(void) {
  char command[700];
  snprintf(command, sizeof command, "'%s' --version >/dev/null 2>&1", criu());
  return system(command) == 0;
}

static void print_errors(const char *directory, const char *log) {
  char command[1200];
  snprintf(command, sizeof command,
           "grep -E 'Error|Warn.*nvidia' '%s/%s' | grep -v 'RLIMIT_NOFILE' | head -n 6 | sed 's/^/    criu: /'",
           directory, log);
  fflush(stdout);
  if (system(command) != 0) printf("    criu: no log\n");
}

int criu_dump(struct target *target, const char *directory, double *took) {
  char command[1600];
  snprintf(command, sizeof command,
           "rm -rf '%s' && mkdir -p '%s' && timeout -k 2 60 '%s' dump -t %d -D '%s' -o dump.log >/dev/null 2>&1",
           directory, directory, criu(), target->pid, directory);
  double begin = seconds();
  int status = system(command);
  *took = seconds() - begin;
  if (status != 0) {
    print_errors(directory, "dump.log");
    return 0;
  }
  double end = seconds() + 10;
  while (target_lives(target) && seconds() < end) sleep_for(0.002);
  return target->ended;
}

int criu_restore(struct target *target, const char *directory, double *took) {
  char command[1600];
  snprintf(command, sizeof command, "timeout -k 2 60 '%s' restore -D '%s' -o restore.log -d >/dev/null 2>&1", criu(),
           directory);
  double begin = seconds();
  int status = system(command);
  *took = seconds() - begin;
  if (status != 0) {
    print_errors(directory, "restore.log");
    return 0;
  }
  target->ended = 0;
  return target_lives(target);
}
