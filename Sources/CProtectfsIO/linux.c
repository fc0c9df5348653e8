#define _GNU_SOURCE
#include "calls.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <sys/stat.h>
#else
// What musl has of it depends on its version; musl.c has the call.
#include <linux/stat.h>
int statx(int directory, const char *path, int flags, unsigned mask, struct statx *status);
#endif

int linux_statx(int directory, const char *path, int flags, struct linux_status *status) {
  REQUIRE_CALLS_ALLOWED();
  struct statx s;
  int result = (store_replacement ? store_replacement->statx : statx)(directory, path, flags, STATX_BASIC_STATS | STATX_BTIME, &s);
  if (result < 0) return -errno;
  *status = (struct linux_status){
      .inode = s.stx_ino,
      .device = makedev(s.stx_dev_major, s.stx_dev_minor),
      .raw_device = makedev(s.stx_rdev_major, s.stx_rdev_minor),
      .size = s.stx_size,
      .blocks = s.stx_blocks,
      .mode = s.stx_mode,
      .links = s.stx_nlink,
      .user = s.stx_uid,
      .group = s.stx_gid,
      .block_size = s.stx_blksize,
      .is_mount_root = s.stx_attributes & STATX_ATTR_MOUNT_ROOT ? 1 : 0,
      .access_seconds = s.stx_atime.tv_sec,
      .modification_seconds = s.stx_mtime.tv_sec,
      .change_seconds = s.stx_ctime.tv_sec,
      .birth_seconds = s.stx_mask & STATX_BTIME ? s.stx_btime.tv_sec : 0,
      .access_nanoseconds = s.stx_atime.tv_nsec,
      .modification_nanoseconds = s.stx_mtime.tv_nsec,
      .change_nanoseconds = s.stx_ctime.tv_nsec,
      .birth_nanoseconds = s.stx_mask & STATX_BTIME ? s.stx_btime.tv_nsec : 0,
  };
  return 0;
}

ssize_t linux_getdents64(int fd, void *buffer, size_t count) {
  if (store_replacement) return RESULT(store_replacement->getdents64(fd, buffer, count));
  return RESULT(syscall(SYS_getdents64, fd, buffer, count));
}

int linux_set_not_dumpable(void) { return RESULT(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)); }
int linux_set_io_flusher(void) { return RESULT(prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0)); }
int linux_set_thread_name(const char *name) { return RESULT(prctl(PR_SET_NAME, name, 0, 0, 0)); }
int linux_thread_number(void) { return (int)syscall(SYS_gettid); }

void linux_keep_only_descriptor(int descriptor) {
  // The first call gives the thread a table of its own, so the second is only made in one.
  if (syscall(436 /* close_range */, descriptor + 1, ~0u, 2 /* CLOSE_RANGE_UNSHARE */) == 0 && descriptor > 0)
    syscall(436 /* close_range */, 0, descriptor - 1, 0);
}

int linux_fork(void) { return RESULT(fork()); }
int linux_end_process(int descriptor) {
  return (int)RESULT(syscall(424 /* pidfd_send_signal */, descriptor, SIGTERM, NULL, 0));
}

int linux_watch_parent(void) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  if (sigprocmask(SIG_BLOCK, &signals, NULL) < 0 || prctl(PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0) < 0) return -errno;
  return RESULT(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

int linux_has_parent_ended(int watch, int parent) {
  struct signalfd_siginfo signal;
  // The kernel names the parent as the sender; anyone else who sends the signal is named too (kill(2)).
  return read(watch, &signal, sizeof signal) == sizeof signal && signal.ssi_code == SI_USER &&
         signal.ssi_pid == (uint32_t)parent;
}

int linux_open_process(int process) { return (int)RESULT(syscall(434 /* pidfd_open */, process, 0)); }

int linux_remount(const char *path, int read_only) {
  struct statvfs s;
  if (statvfs(path, &s) < 0) return -errno;
  unsigned long flags = MS_REMOUNT | (read_only ? MS_RDONLY : 0);
  // Flags that are not named here would be removed from the mount.
  if (s.f_flag & ST_NOSUID) flags |= MS_NOSUID;
  if (s.f_flag & ST_NODEV) flags |= MS_NODEV;
  if (s.f_flag & ST_NOEXEC) flags |= MS_NOEXEC;
  if (s.f_flag & ST_SYNCHRONOUS) flags |= MS_SYNCHRONOUS;
  if (s.f_flag & ST_NOATIME) flags |= MS_NOATIME;
  if (s.f_flag & ST_NODIRATIME) flags |= MS_NODIRATIME;
  if (s.f_flag & ST_RELATIME) flags |= MS_RELATIME;
  return RESULT(mount(NULL, path, NULL, flags, NULL));
}

int linux_open_cached(const char *path, int flags) {
  // struct open_how of linux/openat2.h, and its RESOLVE_CACHED.
  struct { uint64_t flags, mode, resolve; } how = {(uint64_t)(O_PATH | O_CLOEXEC | flags), 0, 0x20};
  return (int)RESULT(syscall(437 /* openat2 */, AT_FDCWD, path, &how, sizeof how));
}

int linux_device_of(const char *path, uint32_t *major_number, uint32_t *minor_number) {
  // With an empty mask the kernel returns the device without a request to the file system, even if its daemon hangs or
  // the caller may not use it (fuse_getattr() in fs/fuse/dir.c).
  struct statx s;
  if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, 0, &s) < 0) return -errno;
  *major_number = s.stx_dev_major;
  *minor_number = s.stx_dev_minor;
  return 0;
}
