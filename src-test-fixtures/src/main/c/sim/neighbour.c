#include "neighbour.h"

#include <dlfcn.h>
#include <limits.h>
#include <stddef.h>

#include "machine.h"

void *neighbour(const char *library, const char *function) {
  char path[PATH_MAX];
  machine();
  machine_path(path, "%s", library);
  void *loaded = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (loaded == NULL) return NULL;
  void *found = dlsym(loaded, function);
  dlclose(loaded); /* it stays: it is linked so that it cannot be unloaded */
  return found;
}
