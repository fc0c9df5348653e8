// Linux system calls that Swift's Glibc module leaves out. A wrapper, whose name begins with `linux_`, returns what the
// call returns, or -errno where it fails.
#ifndef PROTECTFS_CLINUX_H
#define PROTECTFS_CLINUX_H

#include "store.h"

#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <time.h>

/// What statx(2) tells of a file. Times are seconds and nanoseconds.
struct linux_status {
  uint64_t inode, device, raw_device, size, blocks;
  uint32_t mode, links, user, group, block_size;
  /// 1 where a file system is mounted on it.
  uint32_t is_mount_root;
  int64_t access_seconds, modification_seconds, change_seconds, birth_seconds;
  uint32_t access_nanoseconds, modification_nanoseconds, change_nanoseconds, birth_nanoseconds;
};

// Functions of the C library that Swift's Glibc module leaves out, since they are not in POSIX.
int unshare(int flags);
int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *time);
int pthread_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *time);

int linux_statx(int directory, const char *path, int flags, struct linux_status *status);
/// Opens a path with O_PATH if the kernel has all of it in its cache, and so asks no file system for anything; else
/// -EAGAIN or, where it cannot, another error.
int linux_open_cached(const char *path, int flags);
/// The device number of the file system that a path leads to, which is not asked for anything.
int linux_device_of(const char *path, uint32_t *major_number, uint32_t *minor_number);
ssize_t linux_getdents64(int fd, void *buffer, size_t count);

int linux_set_not_dumpable(void);
/// No program gives privileges any more (PR_SET_NO_NEW_PRIVS).
int linux_set_no_new_privileges(void);
/// Takes all capabilities but those of a set from the calling thread: the bounding set where that is permitted, and the
/// permitted, effective, inheritable and ambient ones (capset(2)). A bit for each, by its number.
int linux_keep_capabilities(uint64_t kept);
/// Refuses what a daemon of a file system never asks for, to all threads (seccomp(2)). EBUSY for one with another
/// filter. Rings that were made before can be enabled and used if `allows_rings` is not 0; no others can be made.
int linux_filter_system_calls(int allows_rings);
int linux_set_io_flusher(void);
/// PR_SET_NAME: the first 15 bytes count.
int linux_set_thread_name(const char *name);
int linux_thread_number(void);
/// Closes all descriptors but one, for the calling thread alone (close_range(2), CLOSE_RANGE_UNSHARE).
void linux_keep_only_descriptor(int descriptor);
int linux_fork(void);
/// A descriptor that can be read from when the thread that forked this process has ended, even if others of its process
/// cannot end yet (prctl(2), PR_SET_PDEATHSIG); whether it has, then. Blocks SIGUSR1.
int linux_watch_parent(void);
int linux_has_parent_ended(int watch, int parent);
/// A descriptor that can be read from when a process has ended, whether or not its parent waits for it (pidfd_open(2)).
int linux_open_process(int process);
/// Asks the process of such a descriptor to end (pidfd_send_signal(2), SIGTERM).
int linux_end_process(int descriptor);
/// Makes a mount and its file system read-only, or writable again (mount(2), MS_REMOUNT); its other flags stay.
int linux_remount(const char *path, int read_only);
/// Another descriptor of the connection that `/dev/fuse` is open on (FUSE_DEV_IOC_CLONE): requests that are taken by
/// one are the other's business no more, and the connection lives as long as there is one.
int linux_clone_fuse_device(int device);
/// Opens what ends a connection when it is written to: that of the file system with a minor device number.
int linux_open_fuse_abort(unsigned minor);
int linux_abort_fuse(int file);
/// Has the kernel ask a FUSE file system for its status, by its minor device number (ustat(2)): no use of its mount.
int linux_ask_fuse_status(unsigned minor);
/// Takes every request of the kernel's and refuses it, until the connection has ended or the other end of `stop` is
/// closed.
void linux_refuse_fuse_requests(int device, int error, int stop);
/// Whether a connection's file system is still there; -ENOENT where it is not.
int linux_probe_fuse(int device);
/// Has the kernel write back and drop a node's pages (FUSE_NOTIFY_INVAL_INODE); -ENOENT where it does not know the
/// node.
int linux_drop_fuse_pages(int device, uint64_t node);
/// Sends bytes, and a descriptor with them (unix(7), SCM_RIGHTS).
int linux_send_with_descriptor(int socket, const void *bytes, size_t count, int descriptor);
/// Receives bytes, and a descriptor, or -1, with them.
ssize_t linux_receive_with_descriptor(int socket, void *bytes, size_t count, int *descriptor);
/// A ring of io_uring(7) that carries commands of FUSE alone, on one device. It is for one thread, the one that enables
/// it. Its memory is this process's own: without a descriptor of it, the ring ends.
struct linux_ring {
  int descriptor;
  unsigned added;
  unsigned enter_flags;
  unsigned submission_mask, completion_mask;
  unsigned *submission_tail, *completion_head, *completion_tail;
  void *completions, *rings, *entries;
  size_t rings_size, entries_size;
};

/// Makes a ring that takes nothing else once it is enabled.
int linux_ring_open(struct linux_ring *ring, unsigned entries, int device);
void linux_ring_close(struct linux_ring *ring);
/// Has an eventfd raised when there is something to gather. Not possible once the ring is enabled. poll(2) on the ring
/// itself only finds what is there before it sleeps: `io_req_local_work_add()` in io_uring/io_uring.c does not wake it.
int linux_ring_signal(struct linux_ring *ring, int event);
/// From now on the ring takes commands, of the calling thread only.
int linux_ring_enable(struct linux_ring *ring);
/// Adds a command. `buffers`, a header and a payload, are read by the call that submits it.
int linux_ring_add(
    struct linux_ring *ring, int command, unsigned queue, uint64_t commit_id, const struct iovec *buffers,
    uint64_t user_data);
/// Submits what was added, and waits until there are so many completions. If `gathers` is 0, the kernel writes into no
/// buffer but those of what is submitted.
int linux_ring_enter(struct linux_ring *ring, unsigned awaited, int gathers);
/// Takes a completion. Returns 0 if there is none.
int linux_ring_take(struct linux_ring *ring, uint64_t *user_data, int *result);
/// Memory that can be mapped again, and is kept out of core dumps; NULL if there is none.
void *linux_map_shared(size_t size);
/// The same memory at another address.
void *linux_map_again(void *start, size_t size);
/// Puts a mapping in the place of another one, at once.
int linux_move_mapping(void *from, void *to, size_t size);
void linux_unmap(void *start, size_t size);
/// Frees a part of such memory, which is zeros when it is used next, at all its addresses.
void linux_free_shared(void *start, size_t size);
/// Runs the calling thread on one processor, if that is permitted and the processor is there; else -errno.
int linux_bind_thread(unsigned processor);
/// Runs the calling thread wherever the first thread of the process may run; else -errno.
int linux_unbind_thread(void);
/// Writes on one processor, if that is permitted and the processor is there, else on any. A thread that is bound to it
/// stays so; another one may then run wherever the first thread of the process may.
int linux_write_on_processor(unsigned processor, int file, const void *bytes, size_t count);
/// Has a terminal hand over each key as it is typed, and show none, until `linux_show_typing`. A signal that ends the
/// process, and exit(3), undo it too. One thread at a time.
int linux_hide_typing(int terminal);

/// The columns of a terminal; 0 where a stream is none, or its terminal does not say (tty_ioctl(4)).
int linux_terminal_columns(int stream);
void linux_show_typing(void);
/// The same for a process that ends in another way.
void linux_show_typing_at_end(void);
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

// The check of the order of locks, in debug builds only; `LockOrder` in Swift calls it.
enum { LINUX_LOCK_ALLOWS_NOTHING, LINUX_LOCK_ALLOWS_LOCKS, LINUX_LOCK_ALLOWS_CALLS };

/// The calling thread is about to take a lock of a rank below 64, whose name stays in memory. Ends the process where it
/// holds one of that rank or above, unless it is one of several, or one under which no other lock is taken.
void linux_will_take_lock(unsigned rank, const char *name, int allows, int is_one_of_several);
void linux_has_released_lock(unsigned rank);
/// Ends the process where the calling thread holds a lock that does not allow system calls; but for that of one rank,
/// if it is not negative.
void linux_require_calls_allowed(const char *call, int except);
/// Ends the process where the calling thread holds any lock.
void linux_require_no_locks(const char *act);

#endif
