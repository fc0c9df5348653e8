// One call of the conformance tables, as a value: what it is, its paths, its numbers, its data. So the same call can be
// made in two directories, as anybody, and what came of it compared.
#ifndef PROTECTFS_TESTS_CONFORMANCE_H
#define PROTECTFS_TESTS_CONFORMANCE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum calls_call {
  // On paths.
  CALL_ACCESS, CALL_CHDIR, CALL_CHMOD, CALL_CHOWN, CALL_GETCWD, CALL_GETXATTR, CALL_LCHOWN, CALL_LINK, CALL_LISTXATTR,
  CALL_LSTAT, CALL_MKDIR, CALL_MKFIFO, CALL_MKNOD, CALL_OPEN, CALL_READLINK, CALL_REMOVEXATTR, CALL_RENAME, CALL_RMDIR,
  CALL_SETXATTR, CALL_STAT, CALL_STATFS, CALL_SYMLINK, CALL_TRUNCATE, CALL_UMASK, CALL_UNLINK, CALL_UTIMENS,
  CALL_BIND, CALL_LIST,
  // On descriptors.
  CALL_CLOSE, CALL_COPY, CALL_FALLOCATE, CALL_FCHMOD, CALL_FCHOWN, CALL_FDATASYNC, CALL_FSTAT, CALL_FSYNC,
  CALL_FTRUNCATE, CALL_FUTIMENS, CALL_GETDENTS, CALL_MAP_READ, CALL_MAP_WRITE, CALL_POSIX_FALLOCATE, CALL_PREAD,
  CALL_PWRITE, CALL_SEEK, CALL_WRITE,
};

struct calls_request {
  enum calls_call call;
  /// A descriptor, for those calls that are made on one.
  int descriptor;
  /// NULL stands for an address that is not the program's.
  const char *path, *other;
  int64_t numbers[5];
  /// What is written or set, or room for what is read.
  void *data;
  size_t count;
};

/// Makes the call; its result, or -errno.
int64_t calls_perform(const struct calls_request *request);

/// Gives this thread a working directory and a umask of its own.
int calls_unshare_directory(void);
/// This thread, and no other of the process, is somebody else until `calls_become_root`.
int calls_become(unsigned user, unsigned group, const unsigned *groups, size_t count);
int calls_become_root(void);

/// FNV-1a: enough to tell two contents apart.
uint64_t calls_hash(const void *bytes, size_t count);

struct calls_entry {
  uint64_t inode, size, blocks, device;
  uint32_t mode, links, user, group;
  /// Seconds and nanoseconds of access, modification and change.
  int64_t times[6];
  /// readdir(3) told another type or inode number than lstat(2).
  uint32_t is_listed_wrong;
  uint32_t name_length;
};
/// What is below the working directory: an entry and its path, one after another. No access time changes, and links and
/// contents are not read. The number of bytes, or -errno; in *entries where they are, until this thread's next call.
ssize_t calls_snapshot(const void **entries);

struct calls_directory_walk {
  uint64_t entries, disagreements;
  /// Positions sought, and where the same entry was there.
  uint64_t sought, found_again;
  /// Of the entries there from the start, while others go and come: not seen, and seen more than once.
  uint64_t missing, seen_twice;
  uint64_t left;
};
/// Reads a directory of files `entry 0`, `entry 1` and so on: through, by position, and while it changes.
int calls_walk_directory(const char *path, struct calls_directory_walk *seen);
/// Makes directories in one another, goes up again and removes them; how deep it got.
int calls_deep_tree(const char *path, int depth, int length);
/// Locks, limits and working directories, by processes of their own; what they saw, in words.
int calls_in_processes(const char *directory, char *text, size_t count);

#endif
