#include "nvml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "../cuda_abi.h"
#include "udp.h"

static nvmlReturn_t (*init)(void);
static nvmlReturn_t (*get_device)(unsigned int index, nvmlDevice_t *device);
static nvmlReturn_t (*get_memory)(nvmlDevice_t device, nvmlMemory_t *memory);
static nvmlDevice_t device;
static atomic_ulong answers, errors;

static int find(void *library, const char *name, void *function) {
  void *found = dlsym(library, name);
  memcpy(function, &found, sizeof found);
  return found != NULL;
}

static void *poll(void *unused) {
  const struct timespec pause = {.tv_nsec = 10000000};
  (void)unused;
  for (;;) {
    nvmlMemory_t memory;
    atomic_fetch_add(get_memory(device, &memory) == 0 ? &answers : &errors, 1);
    nanosleep(&pause, NULL);
  }
  return NULL;
}

static const char *begin(void) {
  pthread_t thread;
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (library == NULL) return "error no libnvidia-ml.so.1";
  if (!find(library, "nvmlInit_v2", &init) || !find(library, "nvmlDeviceGetHandleByIndex_v2", &get_device) ||
      !find(library, "nvmlDeviceGetMemoryInfo", &get_memory))
    return "error a function is missing";
  if (init() != 0 || get_device(0, &device) != 0) return "error NVML does not begin";
  return pthread_create(&thread, NULL, poll, NULL) == 0 ? "ok" : "error no thread";
}

int nvml_answer(const char *request, char *reply) {
  if (strcmp(request, "nvml") == 0) {
    strcpy(reply, begin());
  } else if (strcmp(request, "nvml-answers") == 0) {
    snprintf(reply, ANSWER_SIZE, "%lu %lu", atomic_load(&answers), atomic_load(&errors));
  } else {
    return 0;
  }
  return 1;
}
