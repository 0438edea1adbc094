#include "process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "job_file.h"
#include "memory.h"
#include "neighbour.h"
#include "notifier.h"

struct process the_process = {
    .mutex = PTHREAD_MUTEX_INITIALIZER,
    .changed = PTHREAD_COND_INITIALIZER,
};

int64_t monotonic_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* Needs the mutex. INT64_MAX means no limit. */
static void wait_until(int64_t when) {
  struct process *p = &the_process;
  if (when == INT64_MAX) {
    pthread_cond_wait(&p->changed, &p->mutex);
  } else {
    struct timespec limit = {.tv_sec = when / 1000000000, .tv_nsec = when % 1000000000};
    pthread_cond_clockwait(&p->changed, &p->mutex, CLOCK_MONOTONIC, &limit);
  }
}

static void before_fork(void) { pthread_mutex_lock(&the_process.mutex); }

static void in_parent(void) { pthread_mutex_unlock(&the_process.mutex); }

/* A forked child: the parent's device files and mappings stay with it, as the driver's do, and every call answers
 * NOT_INITIALIZED. The files by which GPU memory is simulated do not: on a real GPU there are none. */
static void in_child(void) {
  the_process.forked = true;
  memory_forget();
  the_process.record = NULL; /* not mapped here */
  pthread_mutex_unlock(&the_process.mutex);
}

/* CUDA_VISIBLE_DEVICES: indices or UUIDs; the list ends at the first that is neither. */
static void choose_devices(struct process *p) {
  const struct machine *m = machine();
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  p->devices = 0;
  if (visible == NULL) {
    for (int i = 0; i < m->gpus; i++) p->gpu_of[p->devices++] = i;
    return;
  }
  char list[1024], *rest = list, *word;
  strncpy(list, visible, sizeof list - 1);
  list[sizeof list - 1] = '\0';
  while ((word = strsep(&rest, ",")) != NULL && p->devices < SIM_MAX_GPUS) {
    CUuuid uuid;
    char *end;
    long index = strtol(word, &end, 10);
    if (strncmp(word, "GPU-", 4) == 0) index = uuid_parse(word, &uuid) == 0 ? machine_find(&uuid) : -1;
    else if (end == word || *end != '\0') index = -1;
    if (index < 0 || index >= m->gpus) return;
    p->gpu_of[p->devices++] = (int)index;
  }
}

CUresult process_initialise(void) {
  struct process *p = &the_process;
  static bool fork_handled;
  pthread_mutex_lock(&p->mutex);
  CUresult result = CUDA_SUCCESS;
  if (p->forked) result = CUDA_ERROR_NOT_INITIALIZED;
  else if (!p->initialised) {
    const struct machine *m = machine();
    choose_devices(p);
    p->known_gpus = m->gpus;
    memcpy(p->known, m->uuid, sizeof p->known);
    if (p->devices == 0) result = CUDA_ERROR_NO_DEVICE;
    else if (job_file_join() != 0) result = CUDA_ERROR_OPERATING_SYSTEM;
    else if (!notifier_map()) result = CUDA_ERROR_OUT_OF_MEMORY;
    else if (control_start() != 0) result = CUDA_ERROR_OPERATING_SYSTEM;
    else {
      if (!fork_handled) pthread_atfork(before_fork, in_parent, in_child);
      fork_handled = true;
      references_open(&p->references, m->gpus);
      p->initialised = true;
    }
  }
  pthread_mutex_unlock(&p->mutex);
  return result;
}

CUresult process_enter(void) {
  struct process *p = &the_process;
  pthread_mutex_lock(&p->mutex);
  CUresult result = p->initialised && !p->forked ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
  if (result == CUDA_SUCCESS) {
    /* A cancelled thread would keep the mutex. */
    int cancellable;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
    while (p->gate_closed) wait_until(INT64_MAX);
    pthread_setcancelstate(cancellable, NULL);
    p->calls++;
  }
  pthread_mutex_unlock(&p->mutex);
  return result;
}

CUresult process_leave(CUresult result) {
  struct process *p = &the_process;
  pthread_mutex_lock(&p->mutex);
  p->calls--;
  if (p->gate_closed) pthread_cond_broadcast(&p->changed);
  pthread_mutex_unlock(&p->mutex);
  return result;
}

EXPORT int libcudaSimEnter(void) { return process_enter() == CUDA_SUCCESS; }

EXPORT void libcudaSimLeave(void) { process_leave(CUDA_SUCCESS); }

void process_synchronise(void) {
  struct process *p = &the_process;
  pthread_mutex_lock(&p->mutex);
  while (p->busy_until > monotonic_ns()) wait_until(p->busy_until);
  pthread_mutex_unlock(&p->mutex);
}

CUresult process_close_gate(uint32_t timeout_ms) {
  struct process *p = &the_process;
  int64_t deadline = timeout_ms == 0 ? INT64_MAX : monotonic_ns() + timeout_ms * 1000000ll;
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&p->mutex);
  p->gate_closed = true;
  for (;;) {
    int64_t now = monotonic_ns();
    if (p->calls == 0 && p->busy_until <= now) break;
    if (deadline <= now) {
      p->gate_closed = false;
      pthread_cond_broadcast(&p->changed);
      result = CUDA_ERROR_NOT_READY;
      break;
    }
    wait_until(p->calls == 0 && p->busy_until < deadline ? p->busy_until : deadline);
  }
  pthread_mutex_unlock(&p->mutex);
  return result;
}

void process_open_gate(void) {
  pthread_mutex_lock(&the_process.mutex);
  the_process.gate_closed = false;
  pthread_cond_broadcast(&the_process.changed);
  pthread_mutex_unlock(&the_process.mutex);
}

/* Needs the mutex of process_charge. */
static CUresult charge(void) {
  struct process *p = &the_process;
  const struct machine *m = machine();
  uint64_t used[SIM_MAX_GPUS] = {0};
  bool any = false;
  for (int i = 0; i < p->devices; i++) {
    uint64_t blocks = (p->allocated[i] + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
    uint64_t more = blocks + (uint64_t)p->contexts[i] * m->context_memory;
    used[p->gpu_of[i]] += more;
    any |= p->contexts[i] > 0 || more > 0;
  }
  if (!any) {
    card_leave(p->record);
    p->record = NULL;
    return CUDA_SUCCESS;
  }
  bool joined = p->record == NULL;
  if (joined && (p->record = card_join()) == NULL) return CUDA_ERROR_OPERATING_SYSTEM;
  CUresult result = card_charge(p->record, used);
  if (result != CUDA_SUCCESS && joined) {
    card_leave(p->record);
    p->record = NULL;
  }
  return result;
}

CUresult process_charge(void) {
  static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&one_at_a_time);
  CUresult result = charge();
  pthread_mutex_unlock(&one_at_a_time);
  return result;
}
