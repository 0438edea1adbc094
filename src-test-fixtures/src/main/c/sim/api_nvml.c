/* NVML as far as memory and its holders go. Like the real one it keeps device files open from init to shutdown, but
 * for the time that its process is checkpointed; and its calls wait while the process is locked. A process that
 * does not use CUDA keeps them, since no checkpoint function reaches it. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "card.h"
#include "faults.h"
#include "neighbour.h"
#include "references.h"

struct nvmlDevice_st {
  int index;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int users;
static int control_file = -1;
static struct nvmlDevice_st devices[SIM_MAX_GPUS];

static bool enter(void) {
  static int (*function)(void); /* once loaded, libcuda stays */
  if (function == NULL) {
    void *found = neighbour("libcuda.so.1", "libcudaSimEnter");
    memcpy(&function, &found, sizeof found);
  }
  return function != NULL && function() != 0;
}

static void leave(void) {
  void (*function)(void);
  void *found = neighbour("libcuda.so.1", "libcudaSimLeave");
  memcpy(&function, &found, sizeof found);
  function();
}

/* Returns what `call` answers, from the function in which this stands; waits before it while the process is locked. */
#define GATED(call)                   \
  do {                                \
    bool inside_ = enter();           \
    nvmlReturn_t answer_ = (call);    \
    if (inside_) leave();             \
    return answer_;                   \
  } while (0)

EXPORT void libnvmlSimRelease(void) {
  if (control_file >= 0) close(control_file);
  control_file = -1;
}

EXPORT void libnvmlSimReturn(void) {
  machine_reload();
  if (users > 0 && control_file < 0) control_file = device_open("nvidiactl");
}

static nvmlReturn_t initialise(void) {
  pthread_mutex_lock(&mutex);
  machine();
  if (users++ == 0) control_file = device_open("nvidiactl");
  pthread_mutex_unlock(&mutex);
  return NVML_SUCCESS;
}

static nvmlReturn_t gated_initialise(void) { GATED(initialise()); }

EXPORT nvmlReturn_t nvmlInit_v2(void) { WITH_FAULTS(getpid(), gated_initialise()); }

static nvmlReturn_t shut_down(void) {
  pthread_mutex_lock(&mutex);
  nvmlReturn_t result = users > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
  if (users > 0 && --users == 0 && control_file >= 0) {
    close(control_file);
    control_file = -1;
  }
  pthread_mutex_unlock(&mutex);
  return result;
}

EXPORT nvmlReturn_t nvmlShutdown(void) { GATED(shut_down()); }

static nvmlReturn_t check(const void *out) {
  if (users == 0) return NVML_ERROR_UNINITIALIZED;
  return out == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

static nvmlReturn_t check_device(nvmlDevice_t device, const void *out) {
  nvmlReturn_t result = check(out);
  if (result != NVML_SUCCESS) return result;
  return device < devices || device >= devices + machine()->gpus ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

static nvmlReturn_t copy_text(char *to, unsigned int size, const char *text) {
  if (strlen(text) >= size) return NVML_ERROR_INSUFFICIENT_SIZE;
  strcpy(to, text);
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int size) {
  nvmlReturn_t result = check(version);
  return result != NVML_SUCCESS ? result : copy_text(version, size, machine()->driver);
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
  nvmlReturn_t result = check(count);
  if (result == NVML_SUCCESS) *count = (unsigned)machine()->gpus;
  return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
  nvmlReturn_t result = check(device);
  if (result != NVML_SUCCESS) return result;
  if (index >= (unsigned)machine()->gpus) return NVML_ERROR_INVALID_ARGUMENT;
  devices[index].index = (int)index;
  *device = &devices[index];
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *text, nvmlDevice_t *device) {
  nvmlReturn_t result = check(device);
  if (result != NVML_SUCCESS) return result;
  CUuuid uuid;
  if (text == NULL || uuid_parse(text, &uuid) != 0) return NVML_ERROR_INVALID_ARGUMENT;
  int index = machine_find(&uuid);
  return index < 0 ? NVML_ERROR_NOT_FOUND : nvmlDeviceGetHandleByIndex_v2((unsigned)index, device);
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned int size) {
  nvmlReturn_t result = check_device(device, text);
  if (result != NVML_SUCCESS) return result;
  char uuid[41];
  uuid_format(&machine()->uuid[device->index], uuid);
  return copy_text(text, size, uuid);
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int size) {
  nvmlReturn_t result = check_device(device, name);
  return result != NVML_SUCCESS ? result : copy_text(name, size, "Simulated GPU");
}

static nvmlReturn_t memory_information(nvmlDevice_t device, nvmlMemory_t *memory) {
  nvmlReturn_t result = check_device(device, memory);
  if (result != NVML_SUCCESS) return result;
  memory->total = machine()->memory;
  uint64_t used;
  if (!card_used(device->index, &used)) return NVML_ERROR_UNKNOWN;
  memory->used = used;
  memory->free = memory->used < memory->total ? memory->total - memory->used : 0;
  return NVML_SUCCESS;
}

static nvmlReturn_t gated_memory(nvmlDevice_t device, nvmlMemory_t *memory) {
  GATED(memory_information(device, memory));
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
  WITH_FAULTS(getpid(), gated_memory(device, memory));
}

struct listing {
  int gpu;
  unsigned int room, found;
  nvmlProcessInfo_t *processes;
};

static void list(const struct usage *usage, void *argument) {
  struct listing *listing = argument;
  if (usage->used[listing->gpu] == 0) return;
  if (listing->found < listing->room) {
    /* NVML_VALUE_NOT_AVAILABLE is what the real one says where it does not know, as with MIG. */
    unsigned long long bytes = machine()->process_memory ? usage->used[listing->gpu] : UINT64_MAX;
    listing->processes[listing->found] = (nvmlProcessInfo_t){(unsigned)usage->pid, bytes, UINT32_MAX, UINT32_MAX};
  }
  listing->found++;
}

/* With too little room the count says how much is needed. */
static nvmlReturn_t running(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *processes) {
  nvmlReturn_t result = check_device(device, count);
  if (result != NVML_SUCCESS) return result;
  if (*count > 0 && processes == NULL) return NVML_ERROR_INVALID_ARGUMENT;
  struct listing listing = {device->index, *count, 0, processes};
  if (!card_visit(list, &listing)) return NVML_ERROR_UNKNOWN;
  *count = listing.found;
  return listing.found > listing.room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

static nvmlReturn_t gated_running(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *processes) {
  GATED(running(device, count, processes));
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                            nvmlProcessInfo_t *processes) {
  WITH_FAULTS(getpid(), gated_running(device, count, processes));
}

EXPORT const char *nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    default: return "Unknown Error";
  }
}
