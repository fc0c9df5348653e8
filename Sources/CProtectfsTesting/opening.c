// Stands before open(2) and its like.
#include "item.h"

#include <stdarg.h>

static int create_file(int directory, const char *path, int flags, mode_t mode) {
  char name[NAME_MAX + 1];
  int parent = open_parent(directory, path, name);
  if (parent >= 0 && is_inside(parent)) {
    long answer = ASK(parent, create);
    if (answer != PROTECTFS_TESTING_PASS) return (int)finish(answer);
  } else {
    close_item(parent);
  }
  int file = (int)syscall(SYS_openat, directory, path, flags, mode);
  int item = file < 0 ? -1 : find_open_item(file);
  if (item < 0) return file;
  long answer = ASK(item, created);
  if (answer == PROTECTFS_TESTING_PASS || answer >= 0) return file;
  syscall(SYS_close, file);
  return (int)finish(answer);
}

static int open_file(int directory, const char *path, int flags, mode_t mode) {
  if (has_stand_in() && !(flags & O_PATH)) {
    int is_new = (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL), exists;
    int item = find_item(directory, path, !is_new && !(flags & O_NOFOLLOW), &exists);
    if (!exists && flags & O_CREAT) return create_file(directory, path, flags, mode);
    if (is_new) {
      close_item(item);
    } else if (item >= 0) {
      long answer = ASK(item, open);
      if (answer != PROTECTFS_TESTING_PASS) return (int)finish(answer);
    }
  }
  return (int)syscall(SYS_openat, directory, path, flags, mode);
}

/// The third argument, which is there only where a file may be created.
#define MODE(flags)                                       \
  ({                                                      \
    mode_t mode_ = 0;                                     \
    if ((flags) & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) { \
      va_list list;                                       \
      va_start(list, flags);                              \
      mode_ = va_arg(list, mode_t);                       \
      va_end(list);                                       \
    }                                                     \
    mode_;                                                \
  })

int open(const char *path, int flags, ...) { return open_file(AT_FDCWD, path, flags, MODE(flags)); }

int openat(int directory, const char *path, int flags, ...) { return open_file(directory, path, flags, MODE(flags)); }

int creat(const char *path, mode_t mode) {
  return open_file(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

#ifdef __GLIBC__
int open64(const char *path, int flags, ...) { return open_file(AT_FDCWD, path, flags, MODE(flags)); }

int openat64(int directory, const char *path, int flags, ...) { return open_file(directory, path, flags, MODE(flags)); }

int creat64(const char *path, mode_t mode) { return creat(path, mode); }
#endif
