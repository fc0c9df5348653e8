// Stands in the place of the calls that reach the backing store, in the daemon or the command of a debug build, and has
// the one that a test names fail, fall short, or be the last one of the process. See CFaults.h.
#ifdef DEBUG
#define _GNU_SOURCE
#include "CFaults.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "store.h"

static struct faults *faults;

// MARK: Which calls are about the store

static int is_armed(void) { return __atomic_load_n(&faults->armed, __ATOMIC_SEQ_CST); }

static int is_below_backing(const char *path) {
  size_t count = strlen(faults->backing);
  return !strncmp(path, faults->backing, count) && (path[count] == '/' || path[count] == 0);
}

static int is_ours(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t count = readlinkat(AT_FDCWD, link, path, sizeof path - 1);
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

// A call with its fate. `alters` may look at it first.
#define CALL_AS(result_type, name, called, kinds, ours, call, parameters, alters) \
  static result_type faulty_##name parameters { \
    if (!is_armed()) return call; \
    int fate_ = fate(called, kinds, ours); \
    alters; \
    if (fate_ > 0) { \
      errno = fate_; \
      return -1; \
    } \
    result_type result_ = call; \
    if (fate_ == ENDS_AFTER) _exit(FAULTS_STATUS); \
    if (fate_ == FAILS_AFTER) { \
      errno = (int)faults->error; \
      return -1; \
    } \
    if (fate_ == IS_HELD) hang(); \
    return result_; \
  }
#define CALL(result_type, name, kinds, ours, parameters, ...) \
  CALL_AS(result_type, name, #name, kinds, ours, name(__VA_ARGS__), parameters, )
#define CHANGE(name, ours, parameters, ...) CALL(int, name, FAULTS_CHANGES, ours, parameters, __VA_ARGS__)
#define TAKE(name, ours, parameters, ...) CALL(int, name, FAULTS_CHANGES | FAULTS_ROOM, ours, parameters, __VA_ARGS__)
#define READ(result_type, name, ours, parameters, ...) CALL(result_type, name, FAULTS_READS, ours, parameters, __VA_ARGS__)

// MARK: Contents

// Cuts a write, as a file system does it: whole sectors, or nothing.
static int cut(int fate, size_t *count) {
  if (fate != FALLS_SHORT) return fate;
  *count = *count / 2 & ~(size_t)511;
  faults->pending = *count > 0;
  return *count > 0 ? GOES_ON : (int)faults->error;
}
#define WRITE(result_type, name, call, parameters, count) \
  CALL_AS(result_type, name, "pwrite", FAULTS_CHANGES | FAULTS_ROOM | FAULTS_WRITES, is_ours(fd), call, parameters, \
          fate_ = cut(fate_, count))
WRITE(ssize_t, pwrite, pwrite(fd, buffer, count, offset), (int fd, const void *buffer, size_t count, off_t offset), &count)
// The daemon writes one part, whose length may be changed: it is its own.
WRITE(ssize_t, pwritev2, pwritev2(fd, parts, count, offset, flags),
      (int fd, const struct iovec *parts, int count, off_t offset, int flags), &((struct iovec *)parts)->iov_len)
READ(ssize_t, pread, is_ours(fd), (int fd, void *buffer, size_t count, off_t offset), fd, buffer, count, offset)
CALL(ssize_t, sendfile, FAULTS_CHANGES | FAULTS_ROOM, is_ours(to), (int to, int from, off_t *offset, size_t count), to, from,
     offset, count)
READ(off_t, lseek, is_ours(fd), (int fd, off_t offset, int whence), fd, offset, whence)
CHANGE(ftruncate, is_ours(fd), (int fd, off_t length), fd, length)
CALL(int, fallocate, FAULTS_CHANGES | (mode & FALLOC_FL_PUNCH_HOLE ? 0 : FAULTS_ROOM), is_ours(fd),
     (int fd, int mode, off_t offset, off_t length), fd, mode, offset, length)
CALL(int, fsync, FAULTS_CHANGES | FAULTS_FLUSH, is_ours(fd), (int fd), fd)
CALL(int, fdatasync, FAULTS_CHANGES | FAULTS_FLUSH, is_ours(fd), (int fd), fd)
CALL(int, syncfs, FAULTS_SYNC, is_ours(fd), (int fd), fd)
CALL(int, sync_file_range, FAULTS_CHANGES | FAULTS_FLUSH, is_ours(fd), (int fd, off_t offset, off_t length, unsigned flags), fd,
     offset, length, flags)

// MARK: Names

CALL(int, openat, (flags & O_CREAT ? FAULTS_CHANGES | FAULTS_ROOM : FAULTS_READS), is_ours_at(directory, path),
     (int directory, const char *path, int flags, mode_t mode), directory, path, flags, mode)
TAKE(mkdirat, is_ours(directory), (int directory, const char *name, mode_t mode), directory, name, mode)
TAKE(mknodat, is_ours(directory), (int directory, const char *name, mode_t mode, dev_t device), directory, name, mode,
     device)
TAKE(symlinkat, is_ours(directory), (const char *target, int directory, const char *name), target, directory, name)
TAKE(linkat, is_ours(other), (int directory, const char *from, int other, const char *to, int flags), directory, from,
     other, to, flags)
CHANGE(unlinkat, is_ours(directory), (int directory, const char *name, int flags), directory, name, flags)
static int has_exchange(unsigned flags) { return !(flags & RENAME_EXCHANGE && faults->kinds & FAULTS_NO_EXCHANGE); }
CALL_AS(int, renameat2, "renameat2", FAULTS_CHANGES | FAULTS_ROOM, is_ours(directory) && has_exchange(flags),
        renameat2(directory, from, other, to, flags),
        (int directory, const char *from, int other, const char *to, unsigned flags),
        fate_ = has_exchange(flags) ? fate_ : EINVAL)
READ(ssize_t, readlinkat, is_ours_at(directory, path), (int directory, const char *path, char *buffer, size_t count),
     directory, path, buffer, count)
CALL_AS(ssize_t, getdents64, "getdents64", FAULTS_READS, is_ours(fd), syscall(SYS_getdents64, fd, buffer, count),
        (int fd, void *buffer, size_t count), )

// MARK: Attributes

CHANGE(fchmod, is_ours(fd), (int fd, mode_t mode), fd, mode)
CHANGE(chmod, is_ours_at(AT_FDCWD, path), (const char *path, mode_t mode), path, mode)
CHANGE(fchownat, is_ours_at(directory, path), (int directory, const char *path, uid_t user, gid_t group, int flags),
       directory, path, user, group, flags)
CHANGE(utimensat, is_ours_at(directory, path),
       (int directory, const char *path, const struct timespec times[2], int flags), directory, path, times, flags)
READ(int, statx, is_ours_at(directory, path),
     (int directory, const char *path, int flags, unsigned mask, struct statx *status), directory, path, flags, mask,
     status)
READ(int, fstatfs, is_ours(fd), (int fd, struct statfs *status), fd, status)
READ(int, fstatvfs, is_ours(fd), (int fd, struct statvfs *status), fd, status)
TAKE(setxattr, is_ours_at(AT_FDCWD, path),
     (const char *path, const char *name, const void *value, size_t count, int flags), path, name, value, count, flags)
TAKE(fsetxattr, is_ours(fd), (int fd, const char *name, const void *value, size_t count, int flags), fd, name, value,
     count, flags)
CHANGE(removexattr, is_ours_at(AT_FDCWD, path), (const char *path, const char *name), path, name)
CHANGE(lremovexattr, is_ours_at(AT_FDCWD, path), (const char *path, const char *name), path, name)
CHANGE(fremovexattr, is_ours(fd), (int fd, const char *name), fd, name)
READ(ssize_t, getxattr, is_ours_at(AT_FDCWD, path), (const char *path, const char *name, void *value, size_t count), path,
     name, value, count)
READ(ssize_t, lgetxattr, is_ours_at(AT_FDCWD, path), (const char *path, const char *name, void *value, size_t count), path,
     name, value, count)
// The kernel asks for capabilities before a write, and passes over an error.
CALL_AS(ssize_t, fgetxattr, strcmp(name, "security.capability") == 0 ? "fgetxattr of capabilities" : "fgetxattr",
        FAULTS_READS | FAULTS_RECORDS, is_ours(fd), fgetxattr(fd, name, value, count),
        (int fd, const char *name, void *value, size_t count), )
READ(ssize_t, listxattr, is_ours_at(AT_FDCWD, path), (const char *path, char *list, size_t count), path, list, count)
READ(ssize_t, flistxattr, is_ours(fd), (int fd, char *list, size_t count), fd, list, count)

static int faulty_close(int fd) { return close(fd); }
static int faulty_dup3(int from, int to, int flags) { return dup3(from, to, flags); }

static const struct store_calls faulty = {
#define MEMBER(result, name, ...) .name = faulty_##name,
    STORE_CALLS(MEMBER) STORE_CALLS_ELSEWHERE(MEMBER)};

__attribute__((constructor)) static void map_faults(void) {
  const char *path = getenv(FAULTS_VARIABLE);
  int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void *mapped = mmap(NULL, sizeof *faults, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped == MAP_FAILED) return;
  faults = mapped;
  store_replace(&faulty);
}
#endif
