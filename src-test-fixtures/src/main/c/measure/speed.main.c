/* How fast the driver's checkpoint and restore are, as they are and helped from outside.
 *
 *   speed SIZE ROUNDS EVERY VARIANT...
 *
 * asis    the driver alone
 * huge    MADV_HUGEPAGE on the save area, as soon as it is seen, by a thread of the target
 * N       huge, and after it N threads of the target populate the save area
 * sN      N threads of the target populate the save area as soon as it is seen; no huge pages
 * trap    the driver's own thread is stopped in its mmap, which loses MAP_POPULATE, and made to call MADV_HUGEPAGE
 * trapN   the same, and N threads of the target populate
 * always  the driver alone, with transparent huge pages switched on for the whole machine during the run
 * EVERY: one in so many blocks of 2 MiB is compared after the last round of a variant. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "hunt.h"

static void print_entry(const struct smaps *s, void *argument) {
  (void)argument;
  smaps_print(s, "    ");
}

static const char *const setting = "/sys/kernel/mm/transparent_hugepage/enabled";

/* The setting that was there is left in `old`. */
static void huge_pages(const char *value, char old[16]) {
  char line[64] = "";
  FILE *file = fopen(setting, "r+");
  if (file == NULL || fgets(line, sizeof line, file) == NULL || strchr(line, '[') == NULL) {
    printf("  %s cannot be set\n", setting);
  } else {
    snprintf(old, 16, "%.*s", (int)strcspn(strchr(line, '[') + 1, "]"), strchr(line, '[') + 1);
    rewind(file);
    fputs(value, file);
  }
  if (file != NULL) fclose(file);
}

static int one(struct target *t, const char *variant, size_t bytes, const char *verify) {
  struct hunt h;
  struct outcome checkpoint, restore;
  size_t rss, huge;
  char old[16] = "", unused[16];
  int trap = strncmp(variant, "trap", 4) == 0, small = variant[0] == 's', always = strcmp(variant, "always") == 0;
  int alone = always || strcmp(variant, "asis") == 0;
  struct outcome lock = act(t, LOCK, 10000);
  if (always) huge_pages("always", old);
  if (trap) hunt_trap(&h, t, atoi(variant + 4));
  else if (!alone) hunt_start(&h, t, !small, atoi(variant + small));
  else memset(&h, 0, sizeof h);
  checkpoint = act(t, CHECKPOINT, 0);
  if (!alone) hunt_stop(&h);
  if (old[0] != 0) huge_pages(old, unused);
  hunt_pages(&h, &rss, &huge);
  if (trap && h.count > 0) smaps_visit(t->pid, h.areas[0].start, h.areas[0].end, print_entry, NULL);
  restore = act(t, RESTORE, 0);
  struct outcome unlock = act(t, UNLOCK, 0);
  printf("  %-6s checkpoint %7.3f s %6.2f GB/s   restore %7.3f s %6.2f GB/s", variant, checkpoint.seconds,
         (double)bytes / checkpoint.seconds / 1e9, restore.seconds, (double)bytes / restore.seconds / 1e9);
  if (h.count > 0)
    printf("   area %zu MiB in %d, seen at %.3f s, huge %zu MiB, populated %zu MiB by %.3f s", h.bytes >> 20, h.count,
           h.areas[0].seen, huge >> 10, h.populated >> 20, h.finished);
  if (h.flags != 0) printf(", mmap flags 0x%x", h.flags);
  if (h.errors > 0) printf(", %d errors, the last %ld", h.errors, h.last_error);
  int fine = lock.result == 0 && checkpoint.result == 0 && restore.result == 0 && unlock.result == 0;
  if (!fine)
    printf("   answers %d %d %d %d, target %s", lock.result, checkpoint.result, restore.result, unlock.result,
           target_lives(t) ? "alive" : target_end(t));
  if (fine && verify != NULL) {
    const char *answer = target_ask(t, verify, 120);
    printf("   %s", answer == NULL ? "no answer" : answer);
    fine = answer != NULL && strncmp(answer, "ok", 2) == 0;
  }
  printf("\n");
  return fine;
}

int main(int argc, char **argv) {
  struct target t;
  char options[64], verify[32];
  if (argc < 5) {
    fprintf(stderr, "usage: speed SIZE ROUNDS EVERY VARIANT...\n");
    return 2;
  }
  harness_start();
  size_t bytes = bytes_of(argv[1]);
  int rounds = atoi(argv[2]);
  if (host_available() < bytes + ((size_t)2 << 30))
    printf("  the host has %zu MiB available only; it may grow\n", host_available() >> 20);
  snprintf(options, sizeof options, "gpu=%s idle=%d", argv[1], HELPERS + 1);
  snprintf(verify, sizeof verify, "verify %s", argv[3]);
  double begin = seconds();
  if (!target_start(&t, options)) return 1;
  printf("%s of GPU memory, target ready after %.1f s; host memory available %zu MiB\n", argv[1], seconds() - begin,
         host_available() >> 20);
  for (int i = 4; i < argc; i++)
    for (int round = 1; round <= rounds; round++)
      if (!one(&t, argv[i], bytes, round == rounds ? verify : NULL)) {
        target_stop(&t);
        return 1;
      }
  target_stop(&t);
  return 0;
}
