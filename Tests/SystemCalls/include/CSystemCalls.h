// The system calls that the mount tests make, one function a call. Each returns what the call returns, or -errno where
// it fails, so that no caller reads errno across a language boundary.
#ifndef PROTECTFS_TESTS_SYSTEM_CALLS_H
#define PROTECTFS_TESTS_SYSTEM_CALLS_H

#include "CConformance.h"
#include "CFaults.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct calls_status {
  uint64_t inode, size, blocks;
  uint32_t mode, links, user, group;
  int64_t modification_seconds, modification_nanoseconds;
};

/// An open file of its own that nobody else has.
int calls_open_nothing(void);
struct statx;
/// What statx(2) says of a file that does not exist, on a device of its own.
int calls_statx(int directory, const char *path, int flags, unsigned mask, struct statx *status);
ssize_t calls_getdents64(int fd, void *buffer, size_t count);
void calls_fill(struct statx *status, const struct calls_status *from, uint64_t device);

int calls_open(const char *path, int flags, unsigned mode);
int calls_close(int fd);
ssize_t calls_pread(int fd, void *buffer, size_t count, off_t offset);
ssize_t calls_pwrite(int fd, const void *buffer, size_t count, off_t offset);
ssize_t calls_write(int fd, const void *buffer, size_t count);
int calls_ftruncate(int fd, off_t length);
int calls_truncate(const char *path, off_t length);
int calls_fallocate(int fd, int mode, off_t offset, off_t length);
int calls_fsync(int fd);
int calls_fdatasync(int fd);
int calls_begin_write_back(int fd);
off_t calls_lseek(int fd, off_t offset, int whence);
ssize_t calls_copy_file_range(int from, off_t from_offset, int to, off_t to_offset, size_t count);

/// sendfile(2), to a place in a file.
ssize_t calls_sendfile(int to, off_t offset, int from, size_t count);
/// Writes by io_submit(2), in `pieces` requests of one length, and waits for all; the number of bytes or -errno.
ssize_t calls_submit_writes(int fd, const void *buffer, size_t count, off_t offset, unsigned pieces);

/// mmap(2), shared; 0 or -errno, the address in *address.
int calls_map(int fd, size_t length, int writable, void **address);
int calls_unmap(void *address, size_t length);
int calls_msync(void *address, size_t length);
/// Has the kernel read `count` bytes of a mapping: -EFAULT where a program would have got SIGBUS.
ssize_t calls_read_mapping(const void *address, void *buffer, size_t count);
/// Has the kernel write into a mapping: -EFAULT where a program would have got SIGBUS.
ssize_t calls_write_mapping(void *address, const void *buffer, size_t count);
/// How many pages of a mapping are in the page cache (mincore(2)).
ssize_t calls_resident_pages(void *address, size_t length);

int calls_stat(const char *path, struct calls_status *status);
int calls_lstat(const char *path, struct calls_status *status);
int calls_fstat(int fd, struct calls_status *status);
ssize_t calls_getxattr(const char *path, const char *name, void *value, size_t count);
int calls_setxattr(const char *path, const char *name, const void *value, size_t count, int flags);
ssize_t calls_listxattr(const char *path, char *list, size_t count);
int calls_removexattr(const char *path, const char *name);
int calls_chmod(const char *path, unsigned mode);
int calls_chown(const char *path, unsigned user, unsigned group);
/// Sets access and modification time.
int calls_utimens(const char *path, int64_t seconds, int64_t nanoseconds);
int calls_rename(const char *from, const char *to, unsigned flags);
int calls_link(const char *from, const char *to);
int calls_symlink(const char *target, const char *path);
ssize_t calls_readlink(const char *path, char *buffer, size_t count);
int calls_unlink(const char *path);
int calls_mkdir(const char *path, unsigned mode);
int calls_rmdir(const char *path);
int calls_mknod(const char *path, unsigned mode);
int calls_flock(int fd, int operation);
/// The names in a directory, each with a NUL, `.` and `..` left out; the number of bytes, or -ENOBUFS.
ssize_t calls_names(const char *path, char *buffer, size_t count);

int calls_force_unmount(const char *path);
int calls_unmount(const char *path, int lazy);
/// Starts a program found on the path, with its input from /dev/null and its output in a file; its pid or -errno.
int calls_spawn(char *const arguments[], char *const environment[], const char *directory, const char *output);
/// Waits for a child: its wait(2) status, -EAGAIN while it runs and `block` is 0.
int calls_wait(int pid, int block, int *status);
int calls_kill(int pid, int signal);

/// Searches the memory of a process for needles of one length, which lie one after another. Returns how many places
/// were found, and in *first the first needle found and where; -errno where the memory cannot be read.
struct calls_found {
  size_t needle;
  uint64_t address;
  /// The line of /proc/PID/maps that the address is in.
  char mapping[256];
};
ssize_t calls_search_memory(int pid, const uint8_t *needles, size_t needle_length, size_t needle_count,
                            struct calls_found *first, uint64_t *searched);

/// Connects to a Unix socket; the descriptor or -errno.
int calls_connect(const char *path);
/// Reads what there is within some milliseconds: 0 at the end of the stream, -ETIMEDOUT where nothing came.
ssize_t calls_receive(int fd, void *buffer, size_t count, int milliseconds);
ssize_t calls_send(int fd, const void *buffer, size_t count);

/// The name of a call that a confined daemon may not make; NULL behind the last.
const char *calls_forbidden(int index);
/// Makes that call with arguments that mean nothing: 0 or -errno.
int calls_attempt(int index);
/// Makes a call under the number of another architecture, where the machine has one.
void calls_use_other_numbers(void);

// Freezes the file system that an open directory is on, or thaws it (FIFREEZE and FITHAW in linux/fs.h).
int calls_freeze(int fd, int frozen);
struct calls_handle {
  uint32_t count;
  int32_t type;
  uint8_t bytes[128];
};
/// Reads the file handle of a path into `handle` (name_to_handle_at(2)), or opens what such a handle stands for, below
/// the mount that `fd` is open in (open_by_handle_at(2)).
int calls_handle(const char *path, struct calls_handle *handle);
int calls_open_handle(int fd, const struct calls_handle *handle);

#endif
