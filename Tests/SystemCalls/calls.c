#define _GNU_SOURCE
#include "CSystemCalls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define RESULT(call) \
  do { \
    __typeof__(call) result_ = (call); \
    return result_ < 0 ? -errno : result_; \
  } while (0)

int calls_open(const char *path, int flags, unsigned mode) { RESULT(open(path, flags | O_CLOEXEC, mode)); }
int calls_close(int fd) { RESULT(close(fd)); }
ssize_t calls_pread(int fd, void *buffer, size_t count, off_t offset) { RESULT(pread(fd, buffer, count, offset)); }
ssize_t calls_pwrite(int fd, const void *buffer, size_t count, off_t offset) {
  RESULT(pwrite(fd, buffer, count, offset));
}
ssize_t calls_write(int fd, const void *buffer, size_t count) { RESULT(write(fd, buffer, count)); }
int calls_ftruncate(int fd, off_t length) { RESULT(ftruncate(fd, length)); }
int calls_truncate(const char *path, off_t length) { RESULT(truncate(path, length)); }
int calls_fallocate(int fd, int mode, off_t offset, off_t length) { RESULT(fallocate(fd, mode, offset, length)); }
int calls_fsync(int fd) { RESULT(fsync(fd)); }
int calls_fdatasync(int fd) { RESULT(fdatasync(fd)); }
int calls_begin_write_back(int fd) { RESULT(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE)); }
off_t calls_lseek(int fd, off_t offset, int whence) { RESULT(lseek(fd, offset, whence)); }
ssize_t calls_copy_file_range(int from, off_t from_offset, int to, off_t to_offset, size_t count) {
  RESULT(copy_file_range(from, &from_offset, to, &to_offset, count, 0));
}

ssize_t calls_sendfile(int to, off_t offset, int from, size_t count) {
  if (lseek(to, offset, SEEK_SET) < 0) return -errno;
  RESULT(sendfile(to, from, NULL, count));
}

int calls_map(int fd, size_t length, int writable, void **address) {
  *address = mmap(NULL, length, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
  return *address == MAP_FAILED ? -errno : 0;
}
int calls_unmap(void *address, size_t length) { RESULT(munmap(address, length)); }
int calls_msync(void *address, size_t length) { RESULT(msync(address, length, MS_SYNC)); }

// A pipe takes the bytes: the fault is then the kernel's, which answers EFAULT instead of sending a signal.
static ssize_t through_pipe(const void *from, void *to, size_t count) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) < 0) return -errno;
  ssize_t result = 0;
  for (size_t done = 0; done < count;) {
    size_t chunk = count - done < 4096 ? count - done : 4096;
    ssize_t written = write(ends[1], (const char *)from + done, chunk);
    ssize_t got = written < 0 ? -1 : read(ends[0], (char *)to + done, (size_t)written);
    if (written < 0 || got < 0) {
      result = -errno;
      break;
    }
    done += (size_t)got;
    result = (ssize_t)done;
  }
  close(ends[0]);
  close(ends[1]);
  return result;
}
ssize_t calls_read_mapping(const void *address, void *buffer, size_t count) {
  return through_pipe(address, buffer, count);
}
ssize_t calls_write_mapping(void *address, const void *buffer, size_t count) {
  return through_pipe(buffer, address, count);
}
ssize_t calls_resident_pages(void *address, size_t length) {
  size_t pages = (length + 4095) / 4096;
  unsigned char *state = malloc(pages ? pages : 1);
  if (mincore(address, length, state) < 0) {
    int error = errno;
    free(state);
    return -error;
  }
  ssize_t resident = 0;
  for (size_t page = 0; page < pages; page++) resident += state[page] & 1;
  free(state);
  return resident;
}

static int fill(int result, const struct stat *from, struct calls_status *to) {
  if (result < 0) return -errno;
  to->inode = from->st_ino;
  to->size = (uint64_t)from->st_size;
  to->blocks = (uint64_t)from->st_blocks;
  to->mode = from->st_mode;
  to->links = (uint32_t)from->st_nlink;
  to->user = from->st_uid;
  to->group = from->st_gid;
  to->modification_seconds = from->st_mtim.tv_sec;
  to->modification_nanoseconds = from->st_mtim.tv_nsec;
  return 0;
}
int calls_stat(const char *path, struct calls_status *status) {
  struct stat found;
  return fill(stat(path, &found), &found, status);
}
int calls_lstat(const char *path, struct calls_status *status) {
  struct stat found;
  return fill(lstat(path, &found), &found, status);
}
int calls_fstat(int fd, struct calls_status *status) {
  struct stat found;
  return fill(fstat(fd, &found), &found, status);
}
ssize_t calls_getxattr(const char *path, const char *name, void *value, size_t count) {
  RESULT(lgetxattr(path, name, value, count));
}
int calls_setxattr(const char *path, const char *name, const void *value, size_t count, int flags) {
  RESULT(lsetxattr(path, name, value, count, flags));
}
ssize_t calls_listxattr(const char *path, char *list, size_t count) { RESULT(llistxattr(path, list, count)); }
int calls_removexattr(const char *path, const char *name) { RESULT(lremovexattr(path, name)); }
int calls_chmod(const char *path, unsigned mode) { RESULT(chmod(path, mode)); }
int calls_chown(const char *path, unsigned user, unsigned group) { RESULT(lchown(path, user, group)); }
int calls_utimens(const char *path, int64_t seconds, int64_t nanoseconds) {
  struct timespec times[2] = {{seconds, nanoseconds}, {seconds, nanoseconds}};
  RESULT(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW));
}
int calls_rename(const char *from, const char *to, unsigned flags) {
  RESULT(renameat2(AT_FDCWD, from, AT_FDCWD, to, flags));
}
int calls_link(const char *from, const char *to) { RESULT(link(from, to)); }
int calls_symlink(const char *target, const char *path) { RESULT(symlink(target, path)); }
ssize_t calls_readlink(const char *path, char *buffer, size_t count) { RESULT(readlink(path, buffer, count)); }
int calls_unlink(const char *path) { RESULT(unlink(path)); }
int calls_mkdir(const char *path, unsigned mode) { RESULT(mkdir(path, mode)); }
int calls_rmdir(const char *path) { RESULT(rmdir(path)); }
int calls_mknod(const char *path, unsigned mode) { RESULT(mknod(path, mode, 0)); }
int calls_flock(int fd, int operation) { RESULT(flock(fd, operation)); }

ssize_t calls_names(const char *path, char *buffer, size_t count) {
  DIR *directory = opendir(path);
  if (!directory) return -errno;
  size_t used = 0;
  ssize_t result = 0;
  for (;;) {
    errno = 0;
    struct dirent *entry = readdir(directory);
    if (!entry) {
      result = errno ? -errno : (ssize_t)used;
      break;
    }
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    size_t length = strlen(entry->d_name) + 1;
    if (used + length > count) {
      result = -ENOBUFS;
      break;
    }
    memcpy(buffer + used, entry->d_name, length);
    used += length;
  }
  closedir(directory);
  return result;
}

int calls_force_unmount(const char *path) { RESULT(umount2(path, MNT_FORCE)); }
int calls_unmount(const char *path, int lazy) { RESULT(umount2(path, lazy ? MNT_DETACH : 0)); }

int calls_spawn(char *const arguments[], char *const environment[], const char *directory, const char *output) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  if (directory) posix_spawn_file_actions_addchdir_np(&actions, directory);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  // What the runner blocks or ignores is nothing to its children.
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  int error = posix_spawnp(&child, arguments[0], &actions, &attributes, arguments, environment ? environment : environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error ? -error : child;
}
int calls_wait(int pid, int block, int *status) {
  for (;;) {
    pid_t result = waitpid(pid, status, block ? 0 : WNOHANG);
    if (result < 0 && errno == EINTR) continue;
    if (result == 0) return -EAGAIN;
    return result < 0 ? -errno : 0;
  }
}
int calls_kill(int pid, int signal) { RESULT(kill(pid, signal)); }

int calls_connect(const char *path) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
    int error = errno;
    close(fd);
    return -error;
  }
  return fd;
}
ssize_t calls_receive(int fd, void *buffer, size_t count, int milliseconds) {
  struct pollfd wanted = {.fd = fd, .events = POLLIN};
  int ready = poll(&wanted, 1, milliseconds);
  if (ready == 0) return -ETIMEDOUT;
  RESULT(read(fd, buffer, count));
}
ssize_t calls_send(int fd, const void *buffer, size_t count) { RESULT(send(fd, buffer, count, MSG_NOSIGNAL)); }

// linux/fs.h, which has these, does not go with sys/mount.h.
#ifndef FIFREEZE
#define FIFREEZE _IOWR('X', 119, int)
#define FITHAW _IOWR('X', 120, int)
#endif
int calls_freeze(int fd, int frozen) { return ioctl(fd, frozen ? FIFREEZE : FITHAW, 0) < 0 ? -errno : 0; }

// As struct file_handle, which the C library declares with a flexible array.
_Static_assert(sizeof(struct file_handle) == offsetof(struct calls_handle, bytes), "another layout");

int calls_handle(const char *path, struct calls_handle *handle) {
  int mount;
  handle->count = sizeof handle->bytes;
  return name_to_handle_at(AT_FDCWD, path, (struct file_handle *)handle, &mount, 0) < 0 ? -errno : 0;
}

int calls_open_handle(int fd, const struct calls_handle *handle) {
  int file = open_by_handle_at(fd, (struct file_handle *)handle, O_PATH | O_CLOEXEC);
  return file < 0 ? -errno : file;
}
