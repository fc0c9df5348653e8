// Stands before stat(2), access(2), chmod(2) and their like.
#include "item.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

// MARK: stat(2)

static int read_status(int directory, const char *path, struct stat *status, int flags) {
  int result = (int)syscall(SYS_newfstatat, directory, path, status, flags);
  int item = result < 0 || !has_stand_in() ? -1 : find_flagged_item(directory, path, flags);
  if (item < 0) return result;
  uint32_t mode = status->st_mode, device_major, device_minor;
  long answer = ASK(item, status, &mode, &device_major, &device_minor);
  if (answer == PROTECTFS_TESTING_PASS) return result;
  status->st_mode = mode;
  status->st_dev = makedev(device_major, device_minor);
  return (int)finish(answer);
}

int stat(const char *restrict path, struct stat *restrict status) { return read_status(AT_FDCWD, path, status, 0); }

int lstat(const char *restrict path, struct stat *restrict status) {
  return read_status(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}

int fstat(int file, struct stat *status) { return read_status(file, "", status, AT_EMPTY_PATH); }

int fstatat(int directory, const char *restrict path, struct stat *restrict status, int flags) {
  return read_status(directory, path, status, flags);
}

#ifdef __GLIBC__
// On 64-bit machines the two structures are one.
#define PLAIN(status) ((struct stat *)(void *)(status))

int stat64(const char *restrict path, struct stat64 *restrict status) { return stat(path, PLAIN(status)); }

int lstat64(const char *restrict path, struct stat64 *restrict status) { return lstat(path, PLAIN(status)); }

int fstat64(int file, struct stat64 *status) { return fstat(file, PLAIN(status)); }

int fstatat64(int directory, const char *restrict path, struct stat64 *restrict status, int flags) {
  return fstatat(directory, path, PLAIN(status), flags);
}
#endif

// MARK: access(2)

int faccessat(int directory, const char *path, int mode, int flags) {
  int item = has_stand_in() ? find_flagged_item(directory, path, flags) : -1;
  if (item >= 0) {
    long answer = ASK(item, access, mode);
    if (answer != PROTECTFS_TESTING_PASS) return (int)finish(answer);
  }
  if (!flags) return (int)syscall(SYS_faccessat, directory, path, mode);
  return (int)syscall(439 /* faccessat2 */, directory, path, mode, flags);
}

int access(const char *path, int mode) { return faccessat(AT_FDCWD, path, mode, 0); }

int eaccess(const char *path, int mode) { return faccessat(AT_FDCWD, path, mode, AT_EACCESS); }

int euidaccess(const char *path, int mode) { return eaccess(path, mode); }

// MARK: chmod(2)

int fchmodat(int directory, const char *path, mode_t mode, int flags) {
  int item = has_stand_in() ? find_flagged_item(directory, path, flags) : -1;
  if (item >= 0) {
    long answer = ASK(item, change_mode, mode);
    if (answer != PROTECTFS_TESTING_PASS) return (int)finish(answer);
  }
  if (!flags) return (int)syscall(SYS_fchmodat, directory, path, mode);
  return (int)syscall(452 /* fchmodat2 */, directory, path, mode, flags);
}

int chmod(const char *path, mode_t mode) { return fchmodat(AT_FDCWD, path, mode, 0); }

int fchmod(int file, mode_t mode) {
  int item = has_stand_in() ? find_open_item(file) : -1;
  if (item >= 0) {
    long answer = ASK(item, change_mode, mode);
    if (answer != PROTECTFS_TESTING_PASS) return (int)finish(answer);
  }
  return (int)syscall(SYS_fchmod, file, mode);
}
