#define _GNU_SOURCE
#include "CConformance.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#define RESULT(call) \
  do { \
    __typeof__(call) result_ = (call); \
    return result_ < 0 ? -errno : result_; \
  } while (0)

static const char *address(const char *path) { return path ? path : (const char *)1; }

static int64_t times_of(const struct calls_request *r, struct timespec times[2]) {
  times[0] = (struct timespec){r->numbers[1], r->numbers[2]};
  times[1] = (struct timespec){r->numbers[3], r->numbers[4]};
  return 0;
}

static int64_t make_socket(const char *path) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  strncpy(name.sun_path, path, sizeof name.sun_path - 1);
  int64_t result = bind(fd, (struct sockaddr *)&name, sizeof name) < 0 ? -errno : 0;
  close(fd);
  return result;
}

static int64_t list(const char *path) {
  // opendir(3) would look at the path itself, which may be nobody's address.
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -errno;
  DIR *directory = fdopendir(fd);
  int64_t count = 0;
  errno = 0;
  while (readdir(directory)) count++;
  int64_t result = errno ? -errno : count;
  closedir(directory);
  return result;
}

static int64_t on_path(const struct calls_request *r) {
  const char *path = address(r->path), *other = address(r->other);
  const int64_t *n = r->numbers;
  struct stat status;
  struct statfs system;
  struct timespec times[2];
  switch (r->call) {
  case CALL_ACCESS: RESULT(faccessat(AT_FDCWD, path, (int)n[0], (int)n[1]));
  case CALL_CHDIR: RESULT(chdir(path));
  case CALL_CHMOD: RESULT(chmod(path, (mode_t)n[0]));
  case CALL_CHOWN: RESULT(chown(path, (uid_t)n[0], (gid_t)n[1]));
  case CALL_GETCWD: RESULT(syscall(SYS_getcwd, r->data, r->count));
  case CALL_GETXATTR: RESULT(lgetxattr(path, other, r->data, r->count));
  case CALL_LCHOWN: RESULT(lchown(path, (uid_t)n[0], (gid_t)n[1]));
  case CALL_LINK: RESULT(linkat(AT_FDCWD, path, AT_FDCWD, other, (int)n[0]));
  case CALL_LISTXATTR: RESULT(llistxattr(path, r->data, r->count));
  case CALL_LSTAT: RESULT(lstat(path, &status));
  case CALL_MKDIR: RESULT(mkdir(path, (mode_t)n[0]));
  case CALL_MKFIFO: RESULT(mkfifo(path, (mode_t)n[0]));
  case CALL_MKNOD: RESULT(mknod(path, (mode_t)n[0], (dev_t)n[1]));
  case CALL_OPEN: RESULT(open(path, (int)n[0] | O_CLOEXEC, (mode_t)n[1]));
  case CALL_READLINK: RESULT(readlink(path, r->data, r->count));
  case CALL_REMOVEXATTR: RESULT(lremovexattr(path, other));
  case CALL_RENAME: RESULT(renameat2(AT_FDCWD, path, AT_FDCWD, other, (unsigned)n[0]));
  case CALL_RMDIR: RESULT(rmdir(path));
  case CALL_SETXATTR: RESULT(lsetxattr(path, other, r->data, r->count, (int)n[0]));
  case CALL_STAT: RESULT(stat(path, &status));
  case CALL_STATFS: return statfs(path, &system) < 0 ? -errno : (int64_t)system.f_namelen;
  case CALL_SYMLINK: RESULT(symlink(other, path));
  case CALL_TRUNCATE: RESULT(truncate(path, n[0]));
  case CALL_UMASK: return (umask((mode_t)n[0]), 0);
  case CALL_UNLINK: RESULT(unlinkat(AT_FDCWD, path, (int)n[0]));
  case CALL_UTIMENS: times_of(r, times); RESULT(utimensat(AT_FDCWD, path, times, (int)n[0]));
  case CALL_BIND: return make_socket(path);
  case CALL_LIST: return list(path);
  default: return -ENOSYS;
  }
}

static int64_t through_map(const struct calls_request *r, int is_write) {
  size_t start = (size_t)r->numbers[0] & ~(size_t)4095, skip = (size_t)r->numbers[0] - start;
  int sharing = r->numbers[1] ? MAP_PRIVATE : MAP_SHARED;
  char *at = mmap(NULL, skip + r->count, PROT_READ | (is_write ? PROT_WRITE : 0), sharing, r->descriptor, (off_t)start);
  if (at == MAP_FAILED) return -errno;
  if (is_write) memcpy(at + skip, r->data, r->count);
  else memcpy(r->data, at + skip, r->count);
  int64_t result = is_write && !r->numbers[1] && msync(at, skip + r->count, MS_SYNC) < 0 ? -errno : (int64_t)r->count;
  munmap(at, skip + r->count);
  return result;
}

// Through memory that starts at a page, as O_DIRECT wants it.
static int64_t transfer(const struct calls_request *r) {
  void *pages = NULL;
  if (posix_memalign(&pages, 4096, r->count + 1)) return -ENOMEM;
  ssize_t result;
  if (r->call == CALL_PREAD) result = pread(r->descriptor, pages, r->count, r->numbers[0]);
  else {
    memcpy(pages, r->data, r->count);
    result = r->call == CALL_WRITE ? write(r->descriptor, pages, r->count)
                                   : pwrite(r->descriptor, pages, r->count, r->numbers[0]);
  }
  if (result < 0) result = -errno;
  else if (r->call == CALL_PREAD) memcpy(r->data, pages, (size_t)result);
  free(pages);
  return result;
}

static int64_t on_descriptor(const struct calls_request *r) {
  const int64_t *n = r->numbers;
  int fd = r->descriptor;
  struct stat status;
  struct timespec times[2];
  off_t from = n[1], to = n[2];
  switch (r->call) {
  case CALL_CLOSE: RESULT(close(fd));
  case CALL_COPY: RESULT(copy_file_range(fd, &from, (int)n[0], &to, (size_t)n[3], (unsigned)n[4]));
  case CALL_FALLOCATE: RESULT(fallocate(fd, (int)n[0], n[1], n[2]));
  case CALL_FCHMOD: RESULT(fchmod(fd, (mode_t)n[0]));
  case CALL_FCHOWN: RESULT(fchown(fd, (uid_t)n[0], (gid_t)n[1]));
  case CALL_FDATASYNC: RESULT(fdatasync(fd));
  case CALL_FSTAT: return fstat(fd, &status) < 0 ? -errno : (int64_t)status.st_nlink;
  case CALL_FSYNC: RESULT(fsync(fd));
  case CALL_FTRUNCATE: RESULT(ftruncate(fd, n[0]));
  case CALL_FUTIMENS: times_of(r, times); RESULT(futimens(fd, times));
  case CALL_GETDENTS: RESULT(syscall(SYS_getdents64, fd, r->data, r->count));
  case CALL_MAP_READ: return through_map(r, 0);
  case CALL_MAP_WRITE: return through_map(r, 1);
  case CALL_POSIX_FALLOCATE: return -posix_fallocate(fd, n[0], n[1]);
  case CALL_PREAD:
  case CALL_PWRITE:
  case CALL_WRITE: return transfer(r);
  case CALL_SEEK: RESULT(lseek(fd, n[0], (int)n[1]));
  default: return -ENOSYS;
  }
}

int64_t calls_perform(const struct calls_request *request) {
  return request->call < CALL_CLOSE ? on_path(request) : on_descriptor(request);
}

uint64_t calls_hash(const void *bytes, size_t count) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < count; i++) hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3;
  return hash;
}

int calls_unshare_directory(void) { RESULT(unshare(CLONE_FS)); }

// The C library's functions change every thread of a process; the system calls change one. The saved user ID stays 0,
// so that the thread can return.
int calls_become(unsigned user, unsigned group, const unsigned *groups, size_t count) {
  if (syscall(SYS_setgroups, count, groups) < 0) return -errno;
  if (syscall(SYS_setresgid, group, group, 0) < 0) return -errno;
  RESULT((int)syscall(SYS_setresuid, user, user, 0));
}
int calls_become_root(void) {
  if (syscall(SYS_setresuid, 0, 0, 0) < 0) return -errno;
  if (syscall(SYS_setresgid, 0, 0, 0) < 0) return -errno;
  RESULT((int)syscall(SYS_setgroups, 0, NULL));
}

struct output {
  char *at, *end;
};

static int emit(struct output *out, const struct dirent *entry, const struct stat *s, const char *path) {
  struct calls_entry e = {
    .inode = s->st_ino, .size = (uint64_t)s->st_size, .blocks = (uint64_t)s->st_blocks, .device = s->st_rdev,
    .mode = s->st_mode, .links = (uint32_t)s->st_nlink, .user = s->st_uid, .group = s->st_gid,
    .times = {s->st_atim.tv_sec, s->st_atim.tv_nsec, s->st_mtim.tv_sec, s->st_mtim.tv_nsec, s->st_ctim.tv_sec,
              s->st_ctim.tv_nsec},
    .name_length = (uint32_t)strlen(path),
  };
  if (entry && strcmp(entry->d_name, ".."))
    e.is_listed_wrong = entry->d_ino != s->st_ino || entry->d_type != IFTODT(s->st_mode);
  if ((size_t)(out->end - out->at) < sizeof e + e.name_length) return -ENOBUFS;
  memcpy(out->at, &e, sizeof e);
  memcpy(out->at + sizeof e, path, e.name_length);
  out->at += sizeof e + e.name_length;
  return 0;
}

static int walk(struct output *out, int parent, const char *name, const char *path) {
  int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC);
  if (fd < 0) return -errno;
  DIR *directory = fdopendir(fd);
  int result = 0;
  for (struct dirent *entry; result == 0 && (entry = readdir(directory));) {
    if (!strcmp(entry->d_name, "..")) continue;
    int is_self = !strcmp(entry->d_name, ".");
    char *below;
    if (is_self) below = strdup(path);
    else if (asprintf(&below, "%s/%s", path, entry->d_name) < 0) below = NULL;
    struct stat status;
    if (!below) result = -ENOMEM;
    else if (fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0) result = -errno;
    else if (is_self) result = emit(out, entry, &status, below);
    else if (S_ISDIR(status.st_mode)) {
      if (entry->d_type != DT_DIR || entry->d_ino != status.st_ino) result = emit(out, entry, &status, below);
      if (result == 0) result = walk(out, fd, entry->d_name, below);
    } else result = emit(out, entry, &status, below);
    free(below);
  }
  closedir(directory);
  return result;
}

ssize_t calls_snapshot(const void **entries) {
  // One for the thread: a fresh one each time would be mostly page faults.
  static _Thread_local char buffer[1 << 18];
  struct output out = {buffer, buffer + sizeof buffer};
  int result = walk(&out, AT_FDCWD, ".", ".");
  *entries = buffer;
  return result < 0 ? result : out.at - buffer;
}
