#include <string.h>

#include "job.h"

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "start") == 0) return start_job(argc - 2, argv + 2);
  if (argc > 1 && strcmp(argv[1], "guard") == 0) return guard_job(argc - 2, argv + 2);
  if (argc > 1 && strcmp(argv[1], "hold") == 0) return hold_terminal(argc - 2, argv + 2);
  return 2;
}
