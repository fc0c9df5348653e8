// System calls that versions of musl have no functions for; weak, since later versions have.
#define _GNU_SOURCE
#include "CProtectfsIO.h"

#include <linux/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef __GLIBC__
__attribute__((weak)) ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags) {
  return syscall(SYS_pwritev2, fd, parts, count, (long)offset, 0, flags);
}

__attribute__((weak)) int renameat2(
    int from_directory, const char *from, int to_directory, const char *to, unsigned flags) {
  return (int)syscall(SYS_renameat2, from_directory, from, to_directory, to, flags);
}

__attribute__((weak)) int statx(
    int directory, const char *path, int flags, unsigned mask, struct statx *status) {
  return (int)syscall(SYS_statx, directory, path, flags, mask, status);
}
#endif
