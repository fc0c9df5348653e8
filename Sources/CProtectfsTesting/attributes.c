// Stands before the calls for extended attributes, xattr(7).
#include "item.h"

#include <sys/xattr.h>

/// Returns the answer of a stand-in, if the call concerns one.
#define ANSWER(found, call, ...)                                        \
  do {                                                                  \
    int item_ = has_stand_in() ? (found) : -1;                          \
    if (item_ < 0) break;                                               \
    long found_ = ASK(item_, call __VA_OPT__(, ) __VA_ARGS__);          \
    if (found_ != PROTECTFS_TESTING_PASS) return (int)finish(found_);   \
  } while (0)

#define AT_PATH find_item(AT_FDCWD, path, 1, NULL)
#define AT_LINK find_item(AT_FDCWD, path, 0, NULL)

ssize_t getxattr(const char *path, const char *name, void *value, size_t size) {
  ANSWER(AT_PATH, attribute, name, value, size);
  return syscall(SYS_getxattr, path, name, value, size);
}

ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size) {
  ANSWER(AT_LINK, attribute, name, value, size);
  return syscall(SYS_lgetxattr, path, name, value, size);
}

ssize_t fgetxattr(int file, const char *name, void *value, size_t size) {
  ANSWER(find_open_item(file), attribute, name, value, size);
  return syscall(SYS_fgetxattr, file, name, value, size);
}

int setxattr(const char *path, const char *name, const void *value, size_t size, int flags) {
  ANSWER(AT_PATH, set_attribute, name, value, size, flags);
  return (int)syscall(SYS_setxattr, path, name, value, size, flags);
}

int lsetxattr(const char *path, const char *name, const void *value, size_t size, int flags) {
  ANSWER(AT_LINK, set_attribute, name, value, size, flags);
  return (int)syscall(SYS_lsetxattr, path, name, value, size, flags);
}

int fsetxattr(int file, const char *name, const void *value, size_t size, int flags) {
  ANSWER(find_open_item(file), set_attribute, name, value, size, flags);
  return (int)syscall(SYS_fsetxattr, file, name, value, size, flags);
}

int removexattr(const char *path, const char *name) {
  ANSWER(AT_PATH, remove_attribute, name);
  return (int)syscall(SYS_removexattr, path, name);
}

int lremovexattr(const char *path, const char *name) {
  ANSWER(AT_LINK, remove_attribute, name);
  return (int)syscall(SYS_lremovexattr, path, name);
}

int fremovexattr(int file, const char *name) {
  ANSWER(find_open_item(file), remove_attribute, name);
  return (int)syscall(SYS_fremovexattr, file, name);
}

ssize_t listxattr(const char *path, char *list, size_t size) {
  ANSWER(AT_PATH, attribute_names, list, size);
  return syscall(SYS_listxattr, path, list, size);
}

ssize_t llistxattr(const char *path, char *list, size_t size) {
  ANSWER(AT_LINK, attribute_names, list, size);
  return syscall(SYS_llistxattr, path, list, size);
}

ssize_t flistxattr(int file, char *list, size_t size) {
  ANSWER(find_open_item(file), attribute_names, list, size);
  return syscall(SYS_flistxattr, file, list, size);
}
