// Stands before read(2), write(2) and their like. Mappings are out of reach.
#include "item.h"

#include <sys/sendfile.h>
#include <sys/uio.h>

/// Returns an error if the contents of an open file must not be used now.
#define REQUIRE(file)                                                        \
  do {                                                                       \
    int item_ = has_stand_in() ? find_open_item(file) : -1;                  \
    if (item_ < 0) break;                                                    \
    long found_ = ASK(item_, transfer);                                      \
    if (found_ != PROTECTFS_TESTING_PASS) return (ssize_t)finish(found_);    \
  } while (0)

ssize_t read(int file, void *buffer, size_t size) {
  REQUIRE(file);
  return syscall(SYS_read, file, buffer, size);
}

ssize_t write(int file, const void *buffer, size_t size) {
  REQUIRE(file);
  return syscall(SYS_write, file, buffer, size);
}

ssize_t pread(int file, void *buffer, size_t size, off_t offset) {
  REQUIRE(file);
  return syscall(SYS_pread64, file, buffer, size, offset);
}

ssize_t pwrite(int file, const void *buffer, size_t size, off_t offset) {
  REQUIRE(file);
  return syscall(SYS_pwrite64, file, buffer, size, offset);
}

ssize_t readv(int file, const struct iovec *parts, int count) {
  REQUIRE(file);
  return syscall(SYS_readv, file, parts, count);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
  REQUIRE(file);
  return syscall(SYS_writev, file, parts, count);
}

ssize_t sendfile(int to, int from, off_t *offset, size_t count) {
  REQUIRE(from);
  REQUIRE(to);
  return syscall(SYS_sendfile, to, from, offset, count);
}

int ftruncate(int file, off_t length) {
  REQUIRE(file);
  return (int)syscall(SYS_ftruncate, file, length);
}

#ifdef __GLIBC__
ssize_t pread64(int file, void *buffer, size_t size, off64_t offset) { return pread(file, buffer, size, offset); }

ssize_t pwrite64(int file, const void *buffer, size_t size, off64_t offset) {
  return pwrite(file, buffer, size, offset);
}

ssize_t sendfile64(int to, int from, off64_t *offset, size_t count) { return sendfile(to, from, offset, count); }

int ftruncate64(int file, off64_t length) { return ftruncate(file, length); }
#endif
