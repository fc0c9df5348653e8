#define _GNU_SOURCE
#include "CSystemCalls.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

int calls_open_nothing(void) { return memfd_create("nothing", MFD_CLOEXEC); }

void calls_fill(struct statx *status, const struct calls_status *from, uint64_t device) {
  memset(status, 0, sizeof *status);
  status->stx_mask = STATX_BASIC_STATS;
  status->stx_blksize = 4096;
  status->stx_ino = from->inode;
  status->stx_size = from->size;
  status->stx_blocks = from->blocks;
  status->stx_mode = (uint16_t)from->mode;
  status->stx_nlink = from->links;
  status->stx_uid = from->user;
  status->stx_gid = from->group;
  status->stx_rdev_major = major(device);
  status->stx_rdev_minor = minor(device);
  status->stx_mtime.tv_sec = status->stx_ctime.tv_sec = status->stx_atime.tv_sec = from->modification_seconds;
  status->stx_mtime.tv_nsec = (uint32_t)from->modification_nanoseconds;
  status->stx_dev_minor = 99;
}

int calls_statx(int directory, const char *path, int flags, unsigned mask, struct statx *status) {
  return statx(directory, path, flags, mask, status);
}

ssize_t calls_getdents64(int fd, void *buffer, size_t count) { return syscall(SYS_getdents64, fd, buffer, count); }
