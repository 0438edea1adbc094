/*
 * attributes list                    prints the name of each attribute
 * attributes DIRECTORY NAME...       makes a process with these attributes and stays as its keeper, see keeper.c
 * attributes --terminal DIRECTORY COMMAND...   runs a command in a terminal, and stays as that terminal
 *
 * In DIRECTORY: "pid" has the pid of the tree's root once it is ready; "impossible" is there instead, with the reason, if
 * this machine does not have an attribute. A file "ask" asks the root for a report: it removes "ask" and makes
 * "report-N", where N is what "ask" has in it. Each path is open for an instant only.
 */
#include "attributes.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../cuda_abi.h"

static const struct attribute *const GROUPS[] = {
    terminal_attributes,    namespace_attributes, program_attributes, control_attributes, credential_attributes,
    confinement_attributes, memory_attributes,    file_attributes,    event_attributes,   socket_attributes,
    connection_attributes,  signal_attributes,    tree_attributes,
};
enum { GROUP_COUNT = sizeof GROUPS / sizeof GROUPS[0], CHOSEN_MAX = 32, TEXT_MAX = 16384, WORDS = 64 };

struct child {
  atomic_int asked, answered;
  char text[TEXT_MAX];
};

static const struct attribute *chosen[CHOSEN_MAX];
static int chosen_count;
static const char *directory;
static char report[1 << 18];
static size_t report_length;
static const char *telling = "";

void impossible(const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  int file = open(own_path("impossible.new"), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file < 0 || write(file, text, length) != length) perror(text);
  rename(own_path("impossible.new"), own_path("impossible"));
  _exit(77);
}

long may_fail(long result, const char *call) {
  if (result < 0) impossible("%s: %s", call, strerror(errno));
  return result;
}

void tell(const char *format, ...) {
  size_t left = sizeof report - report_length;
  int length = snprintf(report + report_length, left, "%s ", telling);
  va_list arguments;
  va_start(arguments, format);
  length += vsnprintf(report + report_length + length, left - length, format, arguments);
  va_end(arguments);
  report_length += length;
  report[report_length++] = '\n';
}

const char *outcome(long result) { return result >= 0 ? "ok" : strerrorname_np(errno); }

char *own_path(const char *name) {
  char *path = NULL;
  if (asprintf(&path, "%s/%s", directory, name) < 0) _exit(3);
  return path;
}

int own_file(const char *name, const char *text) {
  int file = may(open(own_path(name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  may(fchmod(file, 0666));
  if (write(file, text, strlen(text)) != (ssize_t)strlen(text)) impossible("%s: %s", name, strerror(errno));
  return file;
}

const char *first_line(const char *path) {
  static char text[4096];
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return outcome(file);
  ssize_t length = read(file, text, sizeof text - 1);
  int error = errno;
  close(file);
  errno = error;
  if (length < 0) return outcome(length);
  text[length] = 0;
  text[strcspn(text, "\n")] = 0;
  return text;
}

void *shared_memory(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) impossible("mmap: %s", strerror(errno));
  return memory;
}

void pause_shortly(void) { nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); }

struct child *new_child(void) { return shared_memory(sizeof(struct child)); }

struct child *start_child(void (*set_up)(void), void (*tell_values)(void)) {
  struct child *child = new_child();
  start_child_in(child, set_up, tell_values);
  return child;
}

void start_child_in(struct child *child, void (*set_up)(void), void (*tell_values)(void)) {
  pid_t pid = may(fork());
  if (pid == 0) {
    if (set_up) set_up();
    for (child->answered = 1;; pause_shortly()) {
      if (child->asked < child->answered) continue;
      report_length = 0;
      if (tell_values) tell_values();
      size_t length = report_length < TEXT_MAX ? report_length : TEXT_MAX - 1;
      memcpy(child->text, report, length);
      child->text[length] = 0;
      child->answered++;
    }
  }
  while (child->answered == 0) {
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) == pid) _exit(77); /* it has said why */
    pause_shortly();
  }
}

bool has_answered(const struct child *child) { return child->answered != 0; }

void ask_child(struct child *child) {
  int number = child->answered;
  child->asked = number;
  for (int left = 60000; child->answered == number; pause_shortly())
    if (left-- == 0) {
      tell("no child");
      return;
    }
  report_length += snprintf(report + report_length, sizeof report - report_length, "%s", child->text);
}

bool has(const char *attribute) {
  for (int i = 0; i < chosen_count; i++)
    if (strcmp(chosen[i]->name, attribute) == 0) return true;
  return false;
}

void set_up_stage(enum stage stage) {
  for (int i = 0; i < chosen_count; i++) {
    telling = chosen[i]->name;
    if (chosen[i]->stage == stage && chosen[i]->set_up) chosen[i]->set_up();
  }
}

static const struct attribute *find(const char *name) {
  for (int group = 0; group < GROUP_COUNT; group++)
    for (const struct attribute *each = GROUPS[group]; each->name; each++)
      if (strcmp(each->name, name) == 0) return each;
  fprintf(stderr, "no attribute %s\n", name);
  exit(2);
}

/* GPU memory with numbers in it, and a number that is in private memory alone: both prove that this process goes on. */
static CUdeviceptr gpu_memory;
static CUresult (*to_host)(void *, CUdeviceptr, size_t);
static unsigned nonce[WORDS];

static void *function(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (!found) impossible("libcuda.so.1 has no %s", name);
  return found;
}

static void gpu(CUresult result, const char *call) {
  if (result != CUDA_SUCCESS) impossible("%s: %d", call, result);
}

static void use_gpu(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) impossible("%s", dlerror());
  CUresult (*init)(unsigned), (*retain)(CUcontext *, CUdevice), (*set_current)(CUcontext), (*allocate)(CUdeviceptr *, size_t),
      (*to_device)(CUdeviceptr, const void *, size_t);
  *(void **)&init = function(library, "cuInit");
  *(void **)&retain = function(library, "cuDevicePrimaryCtxRetain");
  *(void **)&set_current = function(library, "cuCtxSetCurrent");
  *(void **)&allocate = function(library, "cuMemAlloc_v2");
  *(void **)&to_device = function(library, "cuMemcpyHtoD_v2");
  *(void **)&to_host = function(library, "cuMemcpyDtoH_v2");
  CUcontext context;
  gpu(init(0), "cuInit");
  gpu(retain(&context, 0), "cuDevicePrimaryCtxRetain");
  gpu(set_current(context), "cuCtxSetCurrent");
  gpu(allocate(&gpu_memory, sizeof nonce), "cuMemAlloc");
  may(getrandom(nonce, sizeof nonce, 0));
  gpu(to_device(gpu_memory, nonce, sizeof nonce), "cuMemcpyHtoD");
}

static void tell_memory(void) {
  unsigned copy[WORDS] = {0};
  CUresult result = to_host(copy, gpu_memory, sizeof copy);
  tell("private %08x%08x gpu %s", nonce[0], nonce[1], result == 0 && memcmp(copy, nonce, sizeof copy) == 0 ? "same" : "other");
}

static void make_report(void) {
  report_length = 0;
  telling = "process";
  tell_memory();
  tell_common();
  for (int i = 0; i < chosen_count; i++) {
    telling = chosen[i]->name;
    if (chosen[i]->tell) chosen[i]->tell();
  }
}

static void answer(void) {
  char number[32] = "", name[64];
  char *ask = own_path("ask"), *new = own_path("report.new"), *done;
  int file = open(ask, O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    ssize_t length = read(file, number, sizeof number - 1);
    close(file);
    unlink(ask);
    make_report();
    file = open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    snprintf(name, sizeof name, "report-%.*s", (int)(length < 0 ? 0 : length), number);
    done = own_path(name);
    if (file < 0 || write(file, report, report_length) != (ssize_t)report_length || close(file) < 0 || rename(new, done) < 0)
      _exit(4);
    free(done);
  }
  free(ask);
  free(new);
}

/* Reads no descriptor and waits in no call that a dump changes. */
_Noreturn static void live(void) {
  set_up_stage(EARLY);
  use_gpu();
  set_up_stage(LATE);
  close(own_file("ready", ""));
  for (;; pause_shortly()) answer();
}

static int list(void) {
  for (int group = 0; group < GROUP_COUNT; group++)
    for (const struct attribute *each = GROUPS[group]; each->name; each++) printf("%s\n", each->name);
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "list") == 0) return list();
  if (argc > 3 && strcmp(argv[1], "--terminal") == 0) {
    directory = argv[2];
    chosen[chosen_count++] = find("terminal-foreground");
    return keep_command(argv + 3);
  }
  bool inside = argc > 2 && strcmp(argv[1], "--inside") == 0;
  if (argc < 2 + inside || argc > CHOSEN_MAX) {
    fprintf(stderr, "usage: attributes list | attributes DIRECTORY NAME... | attributes --terminal DIRECTORY COMMAND...\n");
    return 2;
  }
  directory = argv[1 + inside];
  for (int i = 2 + inside; i < argc; i++) chosen[chosen_count++] = find(argv[i]);
  umask(022);
  if (inside) live();
  return keep(argv);
}
