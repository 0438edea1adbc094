/* trainer FILE LOADERS [MIB]: holds so much memory on the GPU, adds one to a number on the GPU, some hundred times a second, and writes it to FILE. Forked when
 * CUDA is in use, each loader adds one to a number of its own and writes that to FILE.N. SIGTERM: exit code 3. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t asked;

static void on_term(int number) {
  (void)number;
  asked = 1;
}

static void tell(const char *file, unsigned value) {
  char half[4096];
  snprintf(half, sizeof half, "%s.half", file);
  FILE *out = fopen(half, "we");
  if (out == NULL) exit(11);
  fprintf(out, "%u\n", value);
  if (fclose(out) != 0 || rename(half, file) != 0) exit(12);
}

static void *function(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (found == NULL) exit(13);
  return found;
}

int main(int argc, char **argv) {
  const struct timespec pause = {0, 5000000};
  unsigned value = 0;
  size_t size = argc > 3 ? (size_t)atoi(argv[3]) << 20 : 4096;
  unsigned long long address;
  void *context, *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (argc < 3 || library == NULL) return 10;
  int (*init)(unsigned) = function(library, "cuInit");
  int (*create)(void **, unsigned, int) = function(library, "cuCtxCreate_v2");
  int (*alloc)(unsigned long long *, size_t) = function(library, "cuMemAlloc_v2");
  int (*to_device)(unsigned long long, const void *, size_t) = function(library, "cuMemcpyHtoD_v2");
  int (*to_host)(void *, unsigned long long, size_t) = function(library, "cuMemcpyDtoH_v2");
  signal(SIGTERM, on_term);
  if (init(0) || create(&context, 0, 0) || alloc(&address, size) || to_device(address, calloc(1, size), size))
    return 14;
  for (int loader = 1; loader <= atoi(argv[2]); loader++) {
    if (fork() == 0) {
      char file[4000];
      signal(SIGTERM, SIG_DFL);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      snprintf(file, sizeof file, "%s.%d", argv[1], loader);
      for (unsigned count = 1;; count++) {
        tell(file, count);
        nanosleep(&pause, NULL);
      }
    }
  }
  while (!asked) {
    if (to_host(&value, address, sizeof value)) return 15;
    value++;
    if (to_device(address, &value, sizeof value)) return 16;
    tell(argv[1], value);
    nanosleep(&pause, NULL);
  }
  return 3;
}
