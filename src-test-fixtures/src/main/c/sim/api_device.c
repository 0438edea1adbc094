/* The driver API around devices and contexts. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faults.h"
#include "memory.h"
#include "notifier.h"
#include "process.h"
#include "slot.h"

static __thread CUcontext current;

static bool valid(CUdevice device) { return device >= 0 && device < the_process.devices; }

/* Needs no gate: reading a property does not touch the GPU. */
static CUresult check(const void *out, CUdevice device) {
  if (!the_process.initialised || the_process.forked) return CUDA_ERROR_NOT_INITIALIZED;
  if (out == NULL) return CUDA_ERROR_INVALID_VALUE;
  return valid(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult process_current(CUcontext *context) {
  *context = current;
  return current == NULL ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult process_enter_context(CUcontext *context) {
  CUresult result = process_enter();
  if (result != CUDA_SUCCESS) return result;
  result = process_current(context);
  return result == CUDA_SUCCESS ? result : process_leave(result);
}

/* Waits at the lock, also when there is nothing left to initialise. */
static CUresult wait_at_lock(void) {
  CUresult result = process_enter();
  return result == CUDA_SUCCESS ? process_leave(result) : result;
}

static CUresult initialise(void) {
  CUresult result = process_initialise();
  return result == CUDA_SUCCESS ? wait_at_lock() : result;
}

static __attribute__((noinline)) CUresult first_call(unsigned int flags) {
  WITH_FAULTS_OF("cuInit", getpid(), flags != 0 ? CUDA_ERROR_INVALID_VALUE : initialise());
}

/* In an initialised process it needs less than a KiB of stack, as the driver's (664 bytes, driver 580): it has no faults
 * there. */
EXPORT CUresult cuInit(unsigned int flags) {
  bool is_initialised = __atomic_load_n(&the_process.initialised, __ATOMIC_ACQUIRE) && !the_process.forked;
  return flags == 0 && is_initialised ? wait_at_lock() : first_call(flags);
}

EXPORT CUresult cuDriverGetVersion(int *version) {
  if (version == NULL) return CUDA_ERROR_INVALID_VALUE;
  *version = machine()->version;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count) {
  if (!the_process.initialised || the_process.forked) return CUDA_ERROR_NOT_INITIALIZED;
  if (count == NULL) return CUDA_ERROR_INVALID_VALUE;
  *count = the_process.devices;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  CUresult result = check(device, ordinal);
  if (result == CUDA_SUCCESS) *device = ordinal;
  return result;
}

/* The lock does not keep it out; while the process is off its GPU it fails. */
static CUresult cuDeviceGetName_implementation(char *name, int length, CUdevice device) {
  CUresult result = check(name, device);
  if (result == CUDA_SUCCESS && !notifier_is_mapped()) return CUDA_ERROR_OPERATING_SYSTEM;
  if (result == CUDA_SUCCESS && length > 0) snprintf(name, (size_t)length, "Simulated GPU");
  return result;
}

EXPORT_BY_SLOT(cuDeviceGetName, (char *name, int length, CUdevice device), name, length, device)

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  CUresult result = check(uuid, device);
  if (result == CUDA_SUCCESS) *uuid = machine()->uuid[the_process.gpu_of[device]];
  return result;
}

EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

EXPORT CUresult cuDeviceTotalMem_v2(size_t *size, CUdevice device) {
  CUresult result = check(size, device);
  if (result == CUDA_SUCCESS) *size = machine()->memory;
  return result;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
  CUresult result = check(value, device);
  if (result != CUDA_SUCCESS) return result;
  switch (attribute) {
    case 1: *value = 1024; break;     /* MAX_THREADS_PER_BLOCK */
    case 10: *value = 32; break;      /* WARP_SIZE */
    case 16: *value = 132; break;     /* MULTIPROCESSOR_COUNT */
    case 41: *value = 1; break;       /* UNIFIED_ADDRESSING */
    case 75: *value = 9; break;       /* COMPUTE_CAPABILITY_MAJOR */
    case 76: *value = 0; break;       /* COMPUTE_CAPABILITY_MINOR */
    case 83: *value = 1; break;       /* MANAGED_MEMORY */
    default: *value = 0; break;
  }
  return CUDA_SUCCESS;
}

/* Inside the gate: the first context on a device takes memory for itself, the last gives everything back. */
static CUresult add_context(CUdevice device) {
  the_process.contexts[device]++;
  CUresult result = process_charge();
  if (result != CUDA_SUCCESS) the_process.contexts[device]--;
  return result;
}

static CUresult remove_context(CUdevice device) {
  if (--the_process.contexts[device] == 0) memory_free_all(device);
  return process_charge();
}

static CUresult retain(CUcontext *context, CUdevice device) {
  CUresult result = process_enter();
  if (result != CUDA_SUCCESS) return result;
  if (context == NULL) return process_leave(CUDA_ERROR_INVALID_VALUE);
  if (!valid(device)) return process_leave(CUDA_ERROR_INVALID_DEVICE);
  CUcontext primary = &the_process.primary[device];
  primary->ordinal = device;
  if (primary->holders == 0) result = add_context(device);
  if (result == CUDA_SUCCESS) {
    primary->holders++;
    *context = primary;
  }
  return process_leave(result);
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  WITH_FAULTS(getpid(), retain(context, device));
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  CUresult result = process_enter();
  if (result != CUDA_SUCCESS) return result;
  if (!valid(device)) return process_leave(CUDA_ERROR_INVALID_DEVICE);
  CUcontext primary = &the_process.primary[device];
  if (primary->holders == 0) return process_leave(CUDA_ERROR_INVALID_CONTEXT);
  if (--primary->holders == 0) result = remove_context(device);
  return process_leave(result);
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return cuDevicePrimaryCtxRelease_v2(device); }

static CUresult create_context(CUcontext *context, CUdevice device) {
  CUresult result = process_enter();
  if (result != CUDA_SUCCESS) return result;
  if (context == NULL) return process_leave(CUDA_ERROR_INVALID_VALUE);
  if (!valid(device)) return process_leave(CUDA_ERROR_INVALID_DEVICE);
  CUcontext made = calloc(1, sizeof *made);
  if (made == NULL) return process_leave(CUDA_ERROR_OUT_OF_MEMORY);
  made->ordinal = device;
  result = add_context(device);
  if (result == CUDA_SUCCESS) *context = current = made;
  else free(made);
  return process_leave(result);
}

EXPORT CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device) {
  (void)flags;
  WITH_FAULTS(getpid(), create_context(context, device));
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext context) {
  CUresult result = process_enter();
  if (result != CUDA_SUCCESS) return result;
  if (context == NULL || context == &the_process.primary[context->ordinal])
    return process_leave(CUDA_ERROR_INVALID_CONTEXT);
  result = remove_context(context->ordinal);
  if (current == context) current = NULL;
  free(context);
  return process_leave(result);
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  CUresult result = process_enter();
  if (result != CUDA_SUCCESS) return result;
  current = context;
  return process_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context) {
  if (!the_process.initialised || the_process.forked) return CUDA_ERROR_NOT_INITIALIZED;
  if (context == NULL) return CUDA_ERROR_INVALID_VALUE;
  *context = current;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device) {
  if (!the_process.initialised || the_process.forked) return CUDA_ERROR_NOT_INITIALIZED;
  if (device == NULL) return CUDA_ERROR_INVALID_VALUE;
  if (current == NULL) return CUDA_ERROR_INVALID_CONTEXT;
  *device = current->ordinal;
  return CUDA_SUCCESS;
}

/* A few names have a newest version by which they are exported. */
EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *found) {
  (void)version;
  (void)flags;
  if (symbol == NULL || function == NULL) return CUDA_ERROR_INVALID_VALUE;
  Dl_info self;
  void *library = dladdr(&the_process, &self) != 0 ? dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  char versioned[128];
  snprintf(versioned, sizeof versioned, "%s_v2", symbol);
  *function = library == NULL ? NULL : dlsym(library, versioned);
  if (*function == NULL && library != NULL) *function = dlsym(library, symbol);
  if (library != NULL) dlclose(library);
  if (found != NULL) *found = *function == NULL ? 1 : 0; /* 1: symbol not found */
  return *function == NULL ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
