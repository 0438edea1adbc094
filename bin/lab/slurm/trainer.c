/* A stand-in for a training program: a number in GPU memory, to which the GPU adds one in each step, and a pattern beside
 * it. Ends with CODE once the file STOP exists, and with 4 if a byte of the pattern is wrong then.
 *
 *   trainer STOP CODE MILLISECONDS MIB */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cuda.h"
#include "kernels.h"

static uint64_t word(uint64_t index) { return (index + 1) * 0x9e3779b97f4a7c15ull; }

enum { BLOCK = 1 << 20, WORDS = BLOCK / sizeof(uint64_t) };
static uint64_t block[WORDS];

static CUdeviceptr filled(long mebibytes) {
  CUdeviceptr area;
  cuda_must(cuda.alloc(&area, (size_t)mebibytes << 20), "cuMemAlloc");
  for (long i = 0; i < mebibytes; i++) {
    for (int j = 0; j < WORDS; j++) block[j] = word((uint64_t)i * WORDS + j);
    cuda_must(cuda.to_device(area + ((CUdeviceptr)i << 20), block, BLOCK), "cuMemcpyHtoD");
  }
  return area;
}

static int is_right(CUdeviceptr area, long mebibytes) {
  for (long i = 0; i < mebibytes; i++) {
    cuda_must(cuda.to_host(block, area + ((CUdeviceptr)i << 20), BLOCK), "cuMemcpyDtoH");
    for (int j = 0; j < WORDS; j++)
      if (block[j] != word((uint64_t)i * WORDS + j)) return 0;
  }
  return 1;
}

static void print_step(uint32_t number) {
  char host[64];
  CUuuid uuid;
  gethostname(host, sizeof host);
  cuda_must(cuda.device_uuid(&uuid, 0), "cuDeviceGetUuid");
  printf("step %u %s gpu-%02x%02x\n", number, host, (unsigned char)uuid.bytes[0], (unsigned char)uuid.bytes[1]);
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  int code = atoi(argv[2]);
  long milliseconds = atol(argv[3]), mebibytes = atol(argv[4]);
  setvbuf(stdout, NULL, _IOLBF, 0);
  cuda_start(0);
  CUmodule module;
  CUfunction increment;
  CUdeviceptr value;
  uint32_t number = 0;
  cuda_must(cuda.module_load(&module, ptx), "cuModuleLoadData");
  cuda_must(cuda.module_function(&increment, module, "increment"), "cuModuleGetFunction");
  cuda_must(cuda.alloc(&value, sizeof number), "cuMemAlloc");
  cuda_must(cuda.to_device(value, &number, sizeof number), "cuMemcpyHtoD");
  CUdeviceptr area = filled(mebibytes);
  while (access(argv[1], F_OK) != 0) {
    void *arguments[] = {&value};
    cuda_must(cuda.launch(increment, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL), "cuLaunchKernel");
    cuda_must(cuda.to_host(&number, value, sizeof number), "cuMemcpyDtoH");
    print_step(number);
    struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    while (nanosleep(&pause, &pause) != 0) continue;
  }
  if (!is_right(area, mebibytes)) code = 4;
  printf("ends after step %u with %d\n", number, code);
  return code;
}
