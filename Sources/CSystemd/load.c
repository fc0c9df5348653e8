#include "CSystemd.h"

#include <dlfcn.h>
#include <stddef.h>

const struct systemd_functions *systemd_load(const char **error) {
  static struct systemd_functions functions;
  void *library = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    *error = dlerror();
    return NULL;
  }
#define SYSTEMD_FIND(name) \
  if ((functions.name = (__typeof__(functions.name))dlsym(library, "sd_" #name)) == NULL) { \
    *error = dlerror(); \
    return NULL; \
  }
  SYSTEMD_FUNCTIONS(SYSTEMD_FIND)
  return &functions;
}
