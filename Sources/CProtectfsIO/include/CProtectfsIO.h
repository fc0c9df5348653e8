// Linux system calls that Swift's Glibc module leaves out, one wrapper a call. Each returns what the call returns,
// or -errno where it fails, so that no caller reads errno across a language boundary.
#ifndef PROTECTFS_CLINUX_H
#define PROTECTFS_CLINUX_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/// What statx(2) tells of a file. Times are seconds and nanoseconds.
struct linux_status {
  uint64_t inode, device, raw_device, size, blocks;
  uint32_t mode, links, user, group, block_size;
  /// 1 where a file system is mounted on it.
  uint32_t is_mount_root;
  int64_t access_seconds, modification_seconds, change_seconds, birth_seconds;
  uint32_t access_nanoseconds, modification_nanoseconds, change_nanoseconds, birth_nanoseconds;
};

/// What statvfs(3) tells of a file system.
struct linux_filesystem_status {
  uint64_t block_size, fragment_size, blocks, blocks_free, blocks_available, files, files_free, files_available;
  uint64_t flags, name_max;
};

enum { LINUX_TIME_OMIT = -1, LINUX_TIME_NOW = -2 };

int linux_openat(int directory, const char *path, int flags, mode_t mode);
int linux_close(int fd);
/// dup3(2): `to` stands for what `from` does, close-on-exec.
int linux_duplicate(int from, int to);
int linux_statx(int directory, const char *path, int flags, struct linux_status *status);
/// The device number of the file system that a path leads to, which is not asked for anything.
int linux_device_of(const char *path, uint32_t *major_number, uint32_t *minor_number);
int linux_statvfs(int fd, struct linux_filesystem_status *status);
ssize_t linux_pread(int fd, void *buffer, size_t count, off_t offset);
ssize_t linux_pwrite(int fd, const void *buffer, size_t count, off_t offset);
/// The same, and starts to write to the disk at once and keeps nothing in the page cache (pwritev2(2), `RWF_DONTCACHE`).
ssize_t linux_pwrite_uncached(int fd, const void *buffer, size_t count, off_t offset);
ssize_t linux_getdents64(int fd, void *buffer, size_t count);
off_t linux_lseek(int fd, off_t offset, int whence);
int linux_ftruncate(int fd, off_t length);
int linux_fallocate(int fd, int mode, off_t offset, off_t length);
/// Sets O_NOATIME, or clears it, and with it the other status flags that can change (fcntl(2), F_SETFL).
int linux_keep_access_time(int fd, int keeps);
int linux_fsync(int fd);
int linux_syncfs(int fd);
int linux_fdatasync(int fd);
int linux_mkdirat(int directory, const char *path, mode_t mode);
int linux_mknodat(int directory, const char *path, mode_t mode, uint64_t device);
int linux_symlinkat(const char *target, int directory, const char *path);
ssize_t linux_readlinkat(int directory, const char *path, char *buffer, size_t count);
int linux_linkat(int from_directory, const char *from, int to_directory, const char *to, int flags);
int linux_unlinkat(int directory, const char *path, int flags);
int linux_renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned flags);
int linux_fchmod(int fd, mode_t mode);
int linux_chmod(const char *path, mode_t mode);
int linux_fchownat(int directory, const char *path, uid_t user, gid_t group, int flags);
/// Nanoseconds may be LINUX_TIME_OMIT or LINUX_TIME_NOW.
int linux_utimensat(int directory, const char *path, int64_t access_seconds, int64_t access_nanoseconds,
                    int64_t modification_seconds, int64_t modification_nanoseconds, int flags);
ssize_t linux_fgetxattr(int fd, const char *name, void *value, size_t count);
int linux_fsetxattr(int fd, const char *name, const void *value, size_t count, int flags);
ssize_t linux_flistxattr(int fd, char *list, size_t count);
int linux_fremovexattr(int fd, const char *name);
ssize_t linux_getxattr(const char *path, const char *name, void *value, size_t count);
int linux_setxattr(const char *path, const char *name, const void *value, size_t count, int flags);
ssize_t linux_lgetxattr(const char *path, const char *name, void *value, size_t count);
ssize_t linux_listxattr(const char *path, char *list, size_t count);
int linux_removexattr(const char *path, const char *name);
int linux_flock(int fd, int operation);
/// F_OFD_SETLK of fcntl(2), from the first byte to the last there may ever be; does not wait.
int linux_lock_all_bytes(int fd, int type);

/// An inotify(7) descriptor that tells of files in a directory that were replaced, or written and closed.
int linux_watch_directory(int directory);
/// Waits until that has happened to a file of a name, or may have. -ESTALE: it will not any more.
int linux_wait_for_change(int watch, const char *name);
/// Gives the calling thread a umask and working directory of its own (unshare(2), CLONE_FS).
int linux_unshare_file_system_attributes(void);
int linux_set_not_dumpable(void);
/// Sets RLIMIT_CORE to 0, for good.
int linux_forbid_core_dumps(void);
/// No program gives privileges any more (PR_SET_NO_NEW_PRIVS).
int linux_set_no_new_privileges(void);
/// Takes all capabilities but those of a set from the calling thread: the bounding set where that is permitted, and the
/// permitted, effective, inheritable and ambient ones (capset(2)). A bit for each, by its number.
int linux_keep_capabilities(uint64_t kept);
/// Refuses what a daemon of a file system never asks for, to the calling thread and those it starts (seccomp(2)).
int linux_filter_system_calls(void);
int linux_set_io_flusher(void);
int linux_keep_out_of_core_dumps(void *address, size_t length);
/// explicit_bzero(3).
void linux_wipe(void *address, size_t length);
mode_t linux_umask(mode_t mask);
/// PR_SET_NAME: the first 15 bytes count.
int linux_set_thread_name(const char *name);
int linux_fork(void);
/// A descriptor that can be read from when a process has ended, whether or not its parent waits for it (pidfd_open(2)).
int linux_open_process(int process);
int linux_set_open_file_limit_to_maximum(uint64_t *limit);
int linux_unmount(const char *path, int flags);
/// Makes a mount and its file system read-only, or writable again (mount(2), MS_REMOUNT); its other flags stay.
int linux_remount(const char *path, int read_only);
/// Another descriptor of the connection that `/dev/fuse` is open on (FUSE_DEV_IOC_CLONE): requests that are taken by one are
/// the other's business no more, and the connection lives as long as there is one.
int linux_clone_fuse_device(int device);
/// Takes every request of the kernel's and refuses it, until the connection has ended or the other end of `stop` is closed.
void linux_refuse_fuse_requests(int device, int error, int stop);
/// Whether a connection's file system is still there; -ENOENT where it is not.
int linux_probe_fuse(int device);
/// Has the kernel write back and drop a node's pages (FUSE_NOTIFY_INVAL_INODE); -ENOENT where it does not know the node.
int linux_drop_fuse_pages(int device, uint64_t node);
/// Sends bytes, and a descriptor with them (unix(7), SCM_RIGHTS).
int linux_send_with_descriptor(int socket, const void *bytes, size_t count, int descriptor);
/// Receives bytes, and a descriptor, or -1, with them.
ssize_t linux_receive_with_descriptor(int socket, void *bytes, size_t count, int *descriptor);
void linux_syslog_open(const char *identity);
void linux_syslog(int priority, const char *message);
/// A condition variable that counts in CLOCK_MONOTONIC; waits at most so long, or for good if negative.
void linux_condition_init(void *condition);
void linux_condition_wait(void *condition, void *mutex, int64_t milliseconds);
/// Waits for a POSIX semaphore at most so long, in CLOCK_MONOTONIC; -1 when the time has passed.
int linux_semaphore_wait(void *semaphore, int64_t microseconds);
/// A moment in a loop that waits for another processor, about a microsecond.
static inline void linux_pause(void) {
  for (int round = 0; round < 16; round++) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
  }
}
/// Gives every signal its default action and blocks none.
void linux_reset_signals(void);
/// Blocks the signals that end a daemon in this thread and those it starts.
void linux_block_ending_signals(void);
/// Waits for one of them; returns its number.
int linux_wait_for_ending_signal(void);
/// A descriptor that does not block, and is closed by exec(2): eventfd(2), at 0.
int linux_event(void);
/// The wrapper around a lock that readers share and writers have alone.
int linux_rwlock_size(void);
void linux_rwlock_init(void *lock);
void linux_rwlock_destroy(void *lock);
void linux_rwlock_read(void *lock);
void linux_rwlock_write(void *lock);
/// Gives up at a time of CLOCK_MONOTONIC: -ETIMEDOUT.
int linux_rwlock_write_until(void *lock, int64_t nanoseconds);
void linux_rwlock_unlock(void *lock);

// The check of the order of locks, in debug builds only; `LockOrder` in Swift calls it.
enum { LINUX_LOCK_ALLOWS_NOTHING, LINUX_LOCK_ALLOWS_LOCKS, LINUX_LOCK_ALLOWS_CALLS };

/// The calling thread is about to take a lock of a rank below 64, whose name stays in memory. Ends the process where it
/// holds one of that rank or above, unless it is one of several, or one under which no other lock is taken.
void linux_will_take_lock(unsigned rank, const char *name, int allows, int is_one_of_several);
void linux_has_released_lock(unsigned rank);
/// Ends the process where the calling thread holds a lock that does not allow system calls; but for that of one rank, if it
/// is not negative.
void linux_require_calls_allowed(const char *call, int except);
/// Ends the process where the calling thread holds any lock.
void linux_require_no_locks(const char *act);

#endif
