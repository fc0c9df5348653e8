#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "calls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

int linux_openat(int directory, const char *path, int flags, mode_t mode) {
  return RESULT(openat(directory, path, flags | O_CLOEXEC, mode));
}
int linux_duplicate(int from, int to) { return RESULT(dup3(from, to, O_CLOEXEC)); }
int linux_close(int fd) { return RESULT(close(fd)); }

int linux_statx(int directory, const char *path, int flags, struct linux_status *status) {
  REQUIRE_CALLS_ALLOWED();
  struct statx s;
  if (statx(directory, path, flags, STATX_BASIC_STATS | STATX_BTIME, &s) < 0) return -errno;
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

int linux_statvfs(int fd, struct linux_filesystem_status *status) {
  REQUIRE_CALLS_ALLOWED();
  struct statvfs s;
  if (fstatvfs(fd, &s) < 0) return -errno;
  *status = (struct linux_filesystem_status){
      .block_size = s.f_bsize,
      .fragment_size = s.f_frsize,
      .blocks = s.f_blocks,
      .blocks_free = s.f_bfree,
      .blocks_available = s.f_bavail,
      .files = s.f_files,
      .files_free = s.f_ffree,
      .files_available = s.f_favail,
      .flags = s.f_flag,
      .name_max = s.f_namemax,
  };
  return 0;
}

ssize_t linux_pread(int fd, void *buffer, size_t count, off_t offset) {
  return RESULT(pread(fd, buffer, count, offset));
}
ssize_t linux_pwrite(int fd, const void *buffer, size_t count, off_t offset) {
  return RESULT(pwrite(fd, buffer, count, offset));
}
ssize_t linux_pwrite_uncached(int fd, const void *buffer, size_t count, off_t offset) {
#ifndef RWF_DONTCACHE  // linux/fs.h, since 6.14
#define RWF_DONTCACHE 0x80
#endif
  struct iovec part = {(void *)buffer, count};
  return RESULT(pwritev2(fd, &part, 1, offset, RWF_DONTCACHE));
}
ssize_t linux_getdents64(int fd, void *buffer, size_t count) {
  return RESULT(syscall(SYS_getdents64, fd, buffer, count));
}
off_t linux_lseek(int fd, off_t offset, int whence) { return RESULT(lseek(fd, offset, whence)); }
int linux_ftruncate(int fd, off_t length) { return RESULT(ftruncate(fd, length)); }
int linux_fallocate(int fd, int mode, off_t offset, off_t length) { return RESULT(fallocate(fd, mode, offset, length)); }
int linux_keep_access_time(int fd, int keeps) { return RESULT(fcntl(fd, F_SETFL, keeps ? O_NOATIME : 0)); }
int linux_fsync(int fd) { return RESULT(fsync(fd)); }

int linux_syncfs(int fd) { return RESULT(syncfs(fd)); }
int linux_fdatasync(int fd) { return RESULT(fdatasync(fd)); }
int linux_mkdirat(int directory, const char *path, mode_t mode) { return RESULT(mkdirat(directory, path, mode)); }
int linux_mknodat(int directory, const char *path, mode_t mode, uint64_t device) {
  return RESULT(mknodat(directory, path, mode, (dev_t)device));
}
int linux_symlinkat(const char *target, int directory, const char *path) {
  return RESULT(symlinkat(target, directory, path));
}
ssize_t linux_readlinkat(int directory, const char *path, char *buffer, size_t count) {
  return RESULT(readlinkat(directory, path, buffer, count));
}
int linux_linkat(int from_directory, const char *from, int to_directory, const char *to, int flags) {
  return RESULT(linkat(from_directory, from, to_directory, to, flags));
}
int linux_unlinkat(int directory, const char *path, int flags) { return RESULT(unlinkat(directory, path, flags)); }
int linux_renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned flags) {
  return RESULT(renameat2(from_directory, from, to_directory, to, flags));
}
int linux_fchmod(int fd, mode_t mode) { return RESULT(fchmod(fd, mode)); }
int linux_chmod(const char *path, mode_t mode) { return RESULT(chmod(path, mode)); }
int linux_fchownat(int directory, const char *path, uid_t user, gid_t group, int flags) {
  return RESULT(fchownat(directory, path, user, group, flags));
}

static struct timespec time_argument(int64_t seconds, int64_t nanoseconds) {
  if (nanoseconds == LINUX_TIME_OMIT) return (struct timespec){.tv_nsec = UTIME_OMIT};
  if (nanoseconds == LINUX_TIME_NOW) return (struct timespec){.tv_nsec = UTIME_NOW};
  return (struct timespec){.tv_sec = seconds, .tv_nsec = nanoseconds};
}

int linux_utimensat(int directory, const char *path, int64_t access_seconds, int64_t access_nanoseconds,
                    int64_t modification_seconds, int64_t modification_nanoseconds, int flags) {
  struct timespec times[2] = {time_argument(access_seconds, access_nanoseconds),
                              time_argument(modification_seconds, modification_nanoseconds)};
  return RESULT(utimensat(directory, path, times, flags));
}

ssize_t linux_fgetxattr(int fd, const char *name, void *value, size_t count) {
  return RESULT(fgetxattr(fd, name, value, count));
}
int linux_fsetxattr(int fd, const char *name, const void *value, size_t count, int flags) {
  return RESULT(fsetxattr(fd, name, value, count, flags));
}
ssize_t linux_flistxattr(int fd, char *list, size_t count) { return RESULT(flistxattr(fd, list, count)); }
int linux_fremovexattr(int fd, const char *name) { return RESULT(fremovexattr(fd, name)); }
ssize_t linux_getxattr(const char *path, const char *name, void *value, size_t count) {
  return RESULT(getxattr(path, name, value, count));
}
ssize_t linux_lgetxattr(const char *path, const char *name, void *value, size_t count) {
  return RESULT(lgetxattr(path, name, value, count));
}
int linux_setxattr(const char *path, const char *name, const void *value, size_t count, int flags) {
  return RESULT(setxattr(path, name, value, count, flags));
}
ssize_t linux_listxattr(const char *path, char *list, size_t count) { return RESULT(listxattr(path, list, count)); }
int linux_removexattr(const char *path, const char *name) { return RESULT(removexattr(path, name)); }
int linux_flock(int fd, int operation) { return RESULT(flock(fd, operation)); }
int linux_lock_all_bytes(int fd, int type) {
  struct flock lock = {.l_type = (short)type, .l_whence = SEEK_SET};
  return RESULT(fcntl(fd, F_OFD_SETLK, &lock));
}

int linux_watch_directory(int directory) {
  char path[32];
  snprintf(path, sizeof path, "/proc/self/fd/%d", directory);
  int watch = inotify_init1(IN_CLOEXEC);
  if (watch < 0) return -errno;
  if (inotify_add_watch(watch, path, IN_CLOSE_WRITE | IN_MOVED_TO | IN_ONLYDIR) >= 0) return watch;
  int error = errno;
  close(watch);
  return -error;
}
int linux_wait_for_change(int watch, const char *name) {
  REQUIRE_CALLS_ALLOWED();
  _Alignas(struct inotify_event) char events[4096];
  for (int has_come = 0; !has_come;) {
    ssize_t count = read(watch, events, sizeof events);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -errno;
    for (const char *next = events; next < events + count;) {
      const struct inotify_event *event = (const void *)next;
      if (event->mask & IN_IGNORED) return -ESTALE;
      // The event may be among those that the queue had no room for.
      if (event->mask & IN_Q_OVERFLOW || (event->len && !strcmp(event->name, name))) has_come = 1;
      next += sizeof *event + event->len;
    }
  }
  return 0;
}

int linux_unshare_file_system_attributes(void) { return RESULT(unshare(CLONE_FS)); }
int linux_set_not_dumpable(void) { return RESULT(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)); }
int linux_forbid_core_dumps(void) { return RESULT(setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0})); }
int linux_set_io_flusher(void) { return RESULT(prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0)); }
int linux_keep_out_of_core_dumps(void *address, size_t length) {
  return RESULT(madvise(address, length, MADV_DONTDUMP));
}
void linux_wipe(void *address, size_t length) { explicit_bzero(address, length); }
mode_t linux_umask(mode_t mask) { return umask(mask); }
int linux_set_thread_name(const char *name) { return RESULT(prctl(PR_SET_NAME, name, 0, 0, 0)); }
int linux_fork(void) { return RESULT(fork()); }
int linux_open_process(int process) { return (int)RESULT(syscall(434 /* pidfd_open */, process, 0)); }

int linux_set_open_file_limit_to_maximum(uint64_t *limit) {
  struct rlimit r;
  if (getrlimit(RLIMIT_NOFILE, &r) < 0) return -errno;
  // With privileges up to the default of fs.nr_open; without them up to the hard limit.
  const rlim_t most = 1 << 20;
  if (r.rlim_max < most && setrlimit(RLIMIT_NOFILE, &(struct rlimit){most, most}) == 0) r.rlim_max = most;
  r.rlim_cur = r.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &r) < 0) return -errno;
  *limit = r.rlim_cur;
  return 0;
}

int linux_unmount(const char *path, int flags) { return RESULT(umount2(path, flags)); }
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
void linux_syslog_open(const char *identity) { openlog(identity, LOG_PID, LOG_DAEMON); }
void linux_syslog(int priority, const char *message) {
  REQUIRE_CALLS_ALLOWED();
  syslog(priority, "%s", message);
}

void linux_condition_init(void *condition) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &attributes);
  pthread_condattr_destroy(&attributes);
}

static struct timespec after_microseconds(int64_t microseconds) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  time.tv_sec += microseconds / 1000000;
  time.tv_nsec += microseconds % 1000000 * 1000;
  if (time.tv_nsec >= 1000000000) {
    time.tv_sec += 1;
    time.tv_nsec -= 1000000000;
  }
  return time;
}

void linux_condition_wait(void *condition, void *mutex, int64_t milliseconds) {
  if (milliseconds < 0) {
    pthread_cond_wait(condition, mutex);
    return;
  }
  struct timespec deadline = after_microseconds(milliseconds * 1000);
  pthread_cond_timedwait(condition, mutex, &deadline);
}

int linux_semaphore_wait(void *semaphore, int64_t microseconds) {
  struct timespec deadline = after_microseconds(microseconds);
  while (sem_clockwait(semaphore, CLOCK_MONOTONIC, &deadline) != 0) {
    if (errno != EINTR) return -1;
  }
  return 0;
}

int linux_event(void) { return RESULT(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

int linux_rwlock_size(void) { return sizeof(pthread_rwlock_t); }
void linux_rwlock_init(void *lock) {
  // Many readers must not block a writer for ever.
  pthread_rwlockattr_t attributes;
  pthread_rwlockattr_init(&attributes);
  pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
  pthread_rwlock_init(lock, &attributes);
  pthread_rwlockattr_destroy(&attributes);
}
void linux_rwlock_destroy(void *lock) { pthread_rwlock_destroy(lock); }
void linux_rwlock_read(void *lock) { pthread_rwlock_rdlock(lock); }
void linux_rwlock_write(void *lock) { pthread_rwlock_wrlock(lock); }
int linux_rwlock_write_until(void *lock, int64_t nanoseconds) {
  struct timespec time = {nanoseconds / 1000000000, nanoseconds % 1000000000};
  return -pthread_rwlock_clockwrlock(lock, CLOCK_MONOTONIC, &time);
}
void linux_rwlock_unlock(void *lock) { pthread_rwlock_unlock(lock); }

int linux_device_of(const char *path, uint32_t *major_number, uint32_t *minor_number) {
  // With an empty mask the kernel returns the device without a request to the file system, even if its daemon hangs or the
  // caller may not use it (fuse_getattr() in fs/fuse/dir.c).
  struct statx s;
  if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, 0, &s) < 0) return -errno;
  *major_number = s.stx_dev_major;
  *minor_number = s.stx_dev_minor;
  return 0;
}
