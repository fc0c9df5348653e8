// The calls that reach the backing store. Debug builds let tests put others in their place, to have one fail or fall
// short; release builds have no others.
#ifndef PROTECTFS_STORE_H
#define PROTECTFS_STORE_H

#include <fcntl.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

struct statx;

// Functions of the C library that are not in POSIX.
ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags);
int fallocate(int fd, int mode, off_t offset, off_t length);
int syncfs(int fd);
int sync_file_range(int fd, off_t offset, off_t length, unsigned flags);
int dup3(int from, int to, int flags);
int renameat2(int directory, const char *from, int other, const char *to, unsigned flags);

// Result, name, parameters and arguments. Each is libc's function of that name.
#define STORE_CALLS(CALL) \
  CALL(int, openat, (int directory, const char *path, int flags, mode_t mode), directory, path, flags, mode) \
  CALL(int, close, (int fd), fd) \
  CALL(int, dup3, (int from, int to, int flags), from, to, flags) \
  CALL(ssize_t, pread, (int fd, void *buffer, size_t count, off_t offset), fd, buffer, count, offset) \
  CALL(ssize_t, pwrite, (int fd, const void *buffer, size_t count, off_t offset), fd, buffer, count, offset) \
  CALL(ssize_t, pwritev2, (int fd, const struct iovec *parts, int count, off_t offset, int flags), \
       fd, parts, count, offset, flags) \
  CALL(ssize_t, sendfile, (int to, int from, off_t *offset, size_t count), to, from, offset, count) \
  CALL(off_t, lseek, (int fd, off_t offset, int whence), fd, offset, whence) \
  CALL(int, ftruncate, (int fd, off_t length), fd, length) \
  CALL(int, fallocate, (int fd, int mode, off_t offset, off_t length), fd, mode, offset, length) \
  CALL(int, fsync, (int fd), fd) \
  CALL(int, fdatasync, (int fd), fd) \
  CALL(int, syncfs, (int fd), fd) \
  CALL(int, sync_file_range, (int fd, off_t offset, off_t length, unsigned flags), fd, offset, length, flags) \
  CALL(int, mkdirat, (int directory, const char *name, mode_t mode), directory, name, mode) \
  CALL(int, mknodat, (int directory, const char *name, mode_t mode, dev_t device), directory, name, mode, device) \
  CALL(int, symlinkat, (const char *target, int directory, const char *name), target, directory, name) \
  CALL(int, linkat, (int directory, const char *from, int other, const char *to, int flags), \
       directory, from, other, to, flags) \
  CALL(int, unlinkat, (int directory, const char *name, int flags), directory, name, flags) \
  CALL(int, renameat2, (int directory, const char *from, int other, const char *to, unsigned flags), \
       directory, from, other, to, flags) \
  CALL(ssize_t, readlinkat, (int directory, const char *path, char *buffer, size_t count), \
       directory, path, buffer, count) \
  CALL(int, fchmod, (int fd, mode_t mode), fd, mode) \
  CALL(int, chmod, (const char *path, mode_t mode), path, mode) \
  CALL(int, fchownat, (int directory, const char *path, uid_t user, gid_t group, int flags), \
       directory, path, user, group, flags) \
  CALL(int, utimensat, (int directory, const char *path, const struct timespec times[2], int flags), \
       directory, path, times, flags) \
  CALL(int, fstatfs, (int fd, struct statfs *status), fd, status) \
  CALL(int, fstatvfs, (int fd, struct statvfs *status), fd, status) \
  CALL(int, fsetxattr, (int fd, const char *name, const void *value, size_t count, int flags), \
       fd, name, value, count, flags) \
  CALL(int, setxattr, (const char *path, const char *name, const void *value, size_t count, int flags), \
       path, name, value, count, flags) \
  CALL(int, fremovexattr, (int fd, const char *name), fd, name) \
  CALL(int, removexattr, (const char *path, const char *name), path, name) \
  CALL(int, lremovexattr, (const char *path, const char *name), path, name) \
  CALL(ssize_t, fgetxattr, (int fd, const char *name, void *value, size_t count), fd, name, value, count) \
  CALL(ssize_t, getxattr, (const char *path, const char *name, void *value, size_t count), path, name, value, count) \
  CALL(ssize_t, lgetxattr, (const char *path, const char *name, void *value, size_t count), path, name, value, count) \
  CALL(ssize_t, flistxattr, (int fd, char *list, size_t count), fd, list, count) \
  CALL(ssize_t, listxattr, (const char *path, char *list, size_t count), path, list, count)

// Those that are in linux.c alone.
#define STORE_CALLS_ELSEWHERE(CALL) \
  CALL(int, statx, (int directory, const char *path, int flags, unsigned mask, struct statx *status), \
       directory, path, flags, mask, status) \
  CALL(ssize_t, getdents64, (int fd, void *buffer, size_t count), fd, buffer, count)

struct store_calls {
#define STORE_MEMBER(result, name, parameters, ...) result(*name) parameters;
  STORE_CALLS(STORE_MEMBER)
  STORE_CALLS_ELSEWHERE(STORE_MEMBER)
#undef STORE_MEMBER
};

/// What stands in the place of the calls; NULL for themselves, as always in release builds. Set before the first call.
#ifdef DEBUG
extern const struct store_calls *store_replacement;
#else
extern const struct store_calls *const store_replacement;
#endif

/// Sets it, in debug builds.
void store_replace(const struct store_calls *calls);

#define STORE_CALL(result, name, parameters, ...) \
  static inline result store_##name parameters { \
    return __builtin_expect(store_replacement != NULL, 0) ? store_replacement->name(__VA_ARGS__) : name(__VA_ARGS__); \
  }
STORE_CALLS(STORE_CALL)
#undef STORE_CALL

#endif
