// Loaded into the daemon or the command with LD_PRELOAD, this stands before the functions of libc that reach the
// backing store, and has the call that a test names fail, fall short, or be the last one of the process. See CFaults.h.
#define _GNU_SOURCE
#include "CFaults.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static struct faults *faults;

__attribute__((constructor)) static void map_faults(void) {
  const char *path = getenv(FAULTS_VARIABLE);
  int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void *mapped = mmap(NULL, sizeof *faults, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped != MAP_FAILED) faults = mapped;
}

// MARK: Which calls are about the store

static int is_armed(void) { return faults && __atomic_load_n(&faults->armed, __ATOMIC_SEQ_CST); }

static int is_below_backing(const char *path) {
  size_t count = strlen(faults->backing);
  return !strncmp(path, faults->backing, count) && (path[count] == '/' || path[count] == 0);
}

static int is_ours(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t count = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
  if (count < 0) return 0;
  path[count] = 0;
  return is_below_backing(path);
}

static int is_ours_at(int directory, const char *path) {
  int fd;
  if (sscanf(path, "/proc/self/fd/%d", &fd) == 1) return is_ours(fd);
  return *path == '/' ? is_below_backing(path) : is_ours(directory);
}

// MARK: What happens to a call

enum { GOES_ON = 0, ENDS_AFTER = -1, FALLS_SHORT = -2, FAILS_AFTER = -3, IS_HELD = -4 };

// Waits until the faults are disarmed.
static void hang(void) {
  int error = errno;
  __atomic_add_fetch(&faults->hanging, 1, __ATOMIC_SEQ_CST);
  while (is_armed()) usleep(1000);
  __atomic_sub_fetch(&faults->hanging, 1, __ATOMIC_SEQ_CST);
  errno = error;
}

// An errno, or one of the above.
static int fate(const char *name, uint32_t kinds, int is_ours) {
  if (!is_ours || !(faults->kinds & kinds)) return GOES_ON;
  if (kinds & FAULTS_WRITES && __atomic_exchange_n(&faults->pending, 0, __ATOMIC_SEQ_CST)) return (int)faults->error;
  uint32_t number = __atomic_add_fetch(&faults->seen, 1, __ATOMIC_SEQ_CST);
  if (number == faults->at) strncpy(faults->hit, name, sizeof faults->hit - 1);
  if (faults->action == FAULTS_FAIL_ON && number > faults->at) return (int)faults->error;
  if (faults->action == FAULTS_SLOW && number >= faults->at) usleep(250000);
  if (faults->action == FAULTS_HANG && number >= faults->at) hang();
  if (number != faults->at) return GOES_ON;
  switch (faults->action) {
  case FAULTS_FAIL:
  case FAULTS_FAIL_ON: return (int)faults->error;
  case FAULTS_SHORT: return FALLS_SHORT;
  case FAULTS_END_BEFORE: _exit(FAULTS_STATUS);
  case FAULTS_END_AFTER: return ENDS_AFTER;
  case FAULTS_FAIL_AFTER: return FAILS_AFTER;
  case FAULTS_HOLD: return IS_HELD;
  case FAULTS_STALL: usleep(1500000); return GOES_ON;
  default: return GOES_ON;
  }
}

#define NEXT(name) \
  static __typeof__(&name) next; \
  if (!next) next = (__typeof__(next))dlsym(RTLD_NEXT, #name);

// A function with another name for it where offsets have 64 bits, which is all the same here.
#define CALL(result_type, name, kinds, ours, parameters, ...) \
  CALL_AS(result_type, name, #name, kinds, ours, parameters, __VA_ARGS__)
#define CALL_AS(result_type, name, called, kinds, ours, parameters, ...) \
  result_type name parameters { \
    NEXT(name) \
    if (!is_armed()) return next(__VA_ARGS__); \
    int fate_ = fate(called, kinds, ours); \
    if (fate_ > 0) { \
      errno = fate_; \
      return -1; \
    } \
    result_type result_ = next(__VA_ARGS__); \
    if (fate_ == ENDS_AFTER) _exit(FAULTS_STATUS); \
    if (fate_ == FAILS_AFTER) { \
      errno = (int)faults->error; \
      return -1; \
    } \
    if (fate_ == IS_HELD) hang(); \
    return result_; \
  }
#define CHANGE(name, ours, parameters, ...) CALL(int, name, FAULTS_CHANGES, ours, parameters, __VA_ARGS__)
#define TAKE(name, ours, parameters, ...) CALL(int, name, FAULTS_CHANGES | FAULTS_ROOM, ours, parameters, __VA_ARGS__)
#define READ(result_type, name, ours, parameters, ...) CALL(result_type, name, FAULTS_READS, ours, parameters, __VA_ARGS__)

// MARK: Contents

// The fate of a write, whose length it may cut.
static int write_fate(int fd, size_t *count) {
  int fate_ = is_armed() ? fate("pwrite", FAULTS_CHANGES | FAULTS_ROOM | FAULTS_WRITES, is_ours(fd)) : GOES_ON;
  if (fate_ != FALLS_SHORT) return fate_;
  // As a file system does it: whole sectors, or nothing.
  *count = *count / 2 & ~(size_t)511;
  faults->pending = *count > 0;
  return *count > 0 ? GOES_ON : (int)faults->error;
}
#define WRITE(name, parameters, count, ...) \
  ssize_t name parameters { \
    NEXT(name) \
    int fate_ = write_fate(fd, &count); \
    if (fate_ > 0) { \
      errno = fate_; \
      return -1; \
    } \
    ssize_t result_ = next(__VA_ARGS__); \
    if (fate_ == ENDS_AFTER) _exit(FAULTS_STATUS); \
    return result_; \
  }
WRITE(pwrite, (int fd, const void *buffer, size_t count, off_t offset), count, fd, buffer, count, offset)
WRITE(pwrite64, (int fd, const void *buffer, size_t count, off64_t offset), count, fd, buffer, count, offset)
// The daemon writes one part, whose length may be changed: it is its own.
WRITE(
    pwritev2, (int fd, const struct iovec *parts, int count, off_t offset, int flags),
    ((struct iovec *)parts)->iov_len, fd, parts, count, offset, flags)
READ(ssize_t, pread, is_ours(fd), (int fd, void *buffer, size_t count, off_t offset), fd, buffer, count, offset)
READ(ssize_t, pread64, is_ours(fd), (int fd, void *buffer, size_t count, off64_t offset), fd, buffer, count, offset)
READ(off_t, lseek, is_ours(fd), (int fd, off_t offset, int whence), fd, offset, whence)
READ(off64_t, lseek64, is_ours(fd), (int fd, off64_t offset, int whence), fd, offset, whence)
CHANGE(ftruncate, is_ours(fd), (int fd, off_t length), fd, length)
CHANGE(ftruncate64, is_ours(fd), (int fd, off64_t length), fd, length)
#define KINDS_OF(mode) ((mode) & FALLOC_FL_PUNCH_HOLE ? FAULTS_CHANGES : FAULTS_CHANGES | FAULTS_ROOM)
CALL(int, fallocate, KINDS_OF(mode), is_ours(fd), (int fd, int mode, off_t offset, off_t length), fd, mode, offset, length)
CALL(int, fallocate64, KINDS_OF(mode), is_ours(fd), (int fd, int mode, off64_t offset, off64_t length), fd, mode, offset,
     length)
CALL(int, fsync, FAULTS_CHANGES | FAULTS_FLUSH, is_ours(fd), (int fd), fd)
CALL(int, fdatasync, FAULTS_CHANGES | FAULTS_FLUSH, is_ours(fd), (int fd), fd)
CALL(int, syncfs, FAULTS_SYNC, is_ours(fd), (int fd), fd)

// MARK: Names

static int open_or_fail(
    const char *name, __typeof__(&openat) next, int directory, const char *path, int flags, mode_t mode) {
  if (!is_armed()) return next(directory, path, flags, mode);
  int fate_ = fate(name, flags & O_CREAT ? FAULTS_CHANGES | FAULTS_ROOM : FAULTS_READS, is_ours_at(directory, path));
  if (fate_ > 0) {
    errno = fate_;
    return -1;
  }
  int result = next(directory, path, flags, mode);
  if (fate_ == ENDS_AFTER) _exit(FAULTS_STATUS);
  if (fate_ == IS_HELD) hang();
  return result;
}
static mode_t mode_of(int flags, va_list arguments) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0; }
int openat(int directory, const char *path, int flags, ...) {
  NEXT(openat)
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_or_fail("openat", next, directory, path, flags, mode);
}
int openat64(int directory, const char *path, int flags, ...) {
  NEXT(openat64)
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_or_fail("openat", next, directory, path, flags, mode);
}

TAKE(mkdirat, is_ours(directory), (int directory, const char *path, mode_t mode), directory, path, mode)
TAKE(mknodat, is_ours(directory), (int directory, const char *path, mode_t mode, dev_t device), directory, path, mode,
       device)
TAKE(symlinkat, is_ours(directory), (const char *target, int directory, const char *path), target, directory, path)
TAKE(linkat, is_ours(to_directory), (int directory, const char *path, int to_directory, const char *to, int flags),
       directory, path, to_directory, to, flags)
CHANGE(unlinkat, is_ours(directory), (int directory, const char *path, int flags), directory, path, flags)
int renameat2(int directory, const char *path, int to_directory, const char *to, unsigned flags) {
  NEXT(renameat2)
  if (!is_armed()) return next(directory, path, to_directory, to, flags);
  int is_refused = flags & RENAME_EXCHANGE && faults->kinds & FAULTS_NO_EXCHANGE;
  int fate_ = is_refused ? EINVAL : fate("renameat2", FAULTS_CHANGES | FAULTS_ROOM, is_ours(directory));
  if (fate_ > 0) {
    errno = fate_;
    return -1;
  }
  int result = next(directory, path, to_directory, to, flags);
  if (fate_ == ENDS_AFTER) _exit(FAULTS_STATUS);
  return result;
}
READ(ssize_t, readlinkat, is_ours_at(directory, path), (int directory, const char *path, char *buffer, size_t count),
     directory, path, buffer, count)

long syscall(long number, ...) {
  NEXT(syscall)
  va_list list;
  va_start(list, number);
  long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long), d = va_arg(list, long);
  long e = va_arg(list, long), f = va_arg(list, long);
  va_end(list);
  if (number == SYS_getdents64 && is_armed()) {
    int fate_ = fate("getdents64", FAULTS_READS, is_ours((int)a));
    if (fate_ > 0) {
      errno = fate_;
      return -1;
    }
  }
  return next(number, a, b, c, d, e, f);
}

// MARK: Attributes

CHANGE(fchmod, is_ours(fd), (int fd, mode_t mode), fd, mode)
CHANGE(chmod, is_ours_at(AT_FDCWD, path), (const char *path, mode_t mode), path, mode)
CHANGE(fchownat, is_ours_at(directory, path),
       (int directory, const char *path, uid_t user, gid_t group, int flags), directory, path, user, group, flags)
CHANGE(utimensat, is_ours_at(directory, path),
       (int directory, const char *path, const struct timespec times[2], int flags), directory, path, times, flags)
READ(int, statx, is_ours_at(directory, path),
     (int directory, const char *path, int flags, unsigned mask, struct statx *status), directory, path, flags, mask,
     status)
READ(int, fstatvfs, is_ours(fd), (int fd, struct statvfs *status), fd, status)
READ(int, fstatvfs64, is_ours(fd), (int fd, struct statvfs64 *status), fd, status)

int setxattr(const char *, const char *, const void *, size_t, int);
int fsetxattr(int, const char *, const void *, size_t, int);
int removexattr(const char *, const char *);
int fremovexattr(int, const char *);
ssize_t getxattr(const char *, const char *, void *, size_t);
ssize_t lgetxattr(const char *, const char *, void *, size_t);
ssize_t fgetxattr(int, const char *, void *, size_t);
ssize_t listxattr(const char *, char *, size_t);
ssize_t flistxattr(int, char *, size_t);

TAKE(setxattr, is_ours_at(AT_FDCWD, path),
       (const char *path, const char *name, const void *value, size_t count, int flags), path, name, value, count, flags)
TAKE(fsetxattr, is_ours(fd), (int fd, const char *name, const void *value, size_t count, int flags), fd, name, value,
       count, flags)
CHANGE(removexattr, is_ours_at(AT_FDCWD, path), (const char *path, const char *name), path, name)
CHANGE(fremovexattr, is_ours(fd), (int fd, const char *name), fd, name)
READ(ssize_t, getxattr, is_ours_at(AT_FDCWD, path), (const char *path, const char *name, void *value, size_t count), path,
     name, value, count)
READ(ssize_t, lgetxattr, is_ours_at(AT_FDCWD, path), (const char *path, const char *name, void *value, size_t count), path,
     name, value, count)
// The kernel asks for capabilities before a write, and passes over an error.
CALL_AS(ssize_t, fgetxattr, strcmp(name, "security.capability") == 0 ? "fgetxattr of capabilities" : "fgetxattr",
        FAULTS_READS, is_ours(fd), (int fd, const char *name, void *value, size_t count), fd, name, value, count)
READ(ssize_t, listxattr, is_ours_at(AT_FDCWD, path), (const char *path, char *list, size_t count), path, list, count)
READ(ssize_t, flistxattr, is_ours(fd), (int fd, char *list, size_t count), fd, list, count)
