#define _GNU_SOURCE
#include "CProtectfsIndexStore.h"

#include <dlfcn.h>

bool index_load(const char *path, struct index_functions *functions, const char **error) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    *error = dlerror();
    return false;
  }
#define INDEX_FIND(result, name, parameters) \
  if ((functions->name = (__typeof__(functions->name))dlsym(library, "indexstore_" #name)) == NULL) { \
    *error = dlerror(); \
    return false; \
  }
  INDEX_FUNCTIONS(INDEX_FIND)
  return true;
}

const char *index_path_of_runtime(void) {
  Dl_info information;
  void *function = dlsym(RTLD_DEFAULT, "swift_retain");
  return function && dladdr(function, &information) ? information.dli_fname : NULL;
}
