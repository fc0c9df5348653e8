// Shows a directory as a file system that serves several hosts shows it: what POSIX and open file description locks
// (fcntl(2)) say counts on all mounts, those of flock(2) stay with each mount. Nothing is cached.
//
// usage: NetworkFileSystem DIRECTORY MOUNTPOINT
//
// SIGUSR1 makes the file system read-only under those who use it, as errors of a disk may; SIGUSR2 ends that. SIGPWR
// gives the locks of this host away, as a server does that has not heard of it for long; SIGVTALRM too, and what was
// locked refuses this host from then on. SIGTERM unmounts. Prints which files are made durable, and which get
// attributes.

#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#define FUSE_USE_VERSION 312
#include <fuse.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define RESULT(call) return (call) < 0 ? -errno : 0
#define COUNT(call)            \
  ssize_t count_ = (call);     \
  return count_ < 0 ? -errno : (int)count_
/// Refuses what would change something while the file system is read-only.
#define CHANGE(call)              \
  if (is_read_only) return -EROFS; \
  RESULT(call)

/// A line of the log, as a server has it in the order in which it is asked.
static void tell(const char *what, const char *path) {
  printf("%s %s\n", what, path);
  fflush(stdout);
}

static int root;
static volatile sig_atomic_t is_read_only, is_fenced;

/// An open file, and whose locks of fcntl(2) on it are: open file descriptions have one owner each, which is enough
/// here.
struct file {
  int descriptor;
  uint64_t owner;
};

static struct file *file_of(struct fuse_file_info *info) { return (struct file *)(uintptr_t)info->fh; }

/// The path in the directory that is shown; paths of libfuse begin with a slash.
static const char *below(const char *path) { return path[1] ? path + 1 : "."; }

/// The path of a name for calls that take no directory.
static const char *absolute(const char *path, char *buffer, size_t size) {
  snprintf(buffer, size, "/proc/self/fd/%d/%s", root, below(path));
  return buffer;
}
#define ABSOLUTE(path) absolute(path, (char[PATH_MAX + 64]){0}, PATH_MAX + 64)

static int get_attributes(const char *path, struct stat *status, struct fuse_file_info *info) {
  if (info) RESULT(fstat(file_of(info)->descriptor, status));
  RESULT(fstatat(root, below(path), status, AT_SYMLINK_NOFOLLOW));
}

static int read_link(const char *path, char *buffer, size_t size) {
  ssize_t length = readlinkat(root, below(path), buffer, size - 1);
  if (length < 0) return -errno;
  buffer[length] = 0;
  return 0;
}

static int make_node(const char *path, mode_t mode, dev_t device) { CHANGE(mknodat(root, below(path), mode, device)); }
static int make_directory(const char *path, mode_t mode) { CHANGE(mkdirat(root, below(path), mode)); }
static int remove_file(const char *path) { CHANGE(unlinkat(root, below(path), 0)); }
static int remove_directory(const char *path) { CHANGE(unlinkat(root, below(path), AT_REMOVEDIR)); }
static int make_link(const char *target, const char *path) { CHANGE(symlinkat(target, root, below(path))); }
static int change_name(const char *from, const char *to, unsigned flags) {
  CHANGE(renameat2(root, below(from), root, below(to), flags));
}
static int add_name(const char *from, const char *to) { CHANGE(linkat(root, below(from), root, below(to), 0)); }

static int change_mode(const char *path, mode_t mode, struct fuse_file_info *info) {
  CHANGE(info ? fchmod(file_of(info)->descriptor, mode) : fchmodat(root, below(path), mode, 0));
}
static int change_owner(const char *path, uid_t user, gid_t group, struct fuse_file_info *info) {
  (void)info;
  CHANGE(fchownat(root, below(path), user, group, AT_SYMLINK_NOFOLLOW));
}
static int change_length(const char *path, off_t length, struct fuse_file_info *info) {
  CHANGE(info ? ftruncate(file_of(info)->descriptor, length) : truncate(ABSOLUTE(path), length));
}
static int change_times(const char *path, const struct timespec times[2], struct fuse_file_info *info) {
  (void)info;
  CHANGE(utimensat(root, below(path), times, AT_SYMLINK_NOFOLLOW));
}

static int keep(int descriptor, struct fuse_file_info *info) {
  if (descriptor < 0) return -errno;
  struct file *file = calloc(1, sizeof *file);
  if (!file) abort();
  file->descriptor = descriptor;
  info->fh = (uintptr_t)file;
  info->direct_io = 0;
  return 0;
}

static int open_file(const char *path, struct fuse_file_info *info) {
  if (is_read_only && (info->flags & O_ACCMODE) != O_RDONLY) return -EROFS;
  return keep(openat(root, below(path), info->flags & ~(O_CREAT | O_EXCL | O_DIRECT)), info);
}
static int create_file(const char *path, mode_t mode, struct fuse_file_info *info) {
  if (is_read_only) return -EROFS;
  return keep(openat(root, below(path), info->flags, mode), info);
}
static int release_file(const char *path, struct fuse_file_info *info) {
  (void)path;
  close(file_of(info)->descriptor);
  free(file_of(info));
  return 0;
}

static int read_file(const char *path, char *buffer, size_t size, off_t offset, struct fuse_file_info *info) {
  (void)path;
  COUNT(pread(file_of(info)->descriptor, buffer, size, offset));
}
static int write_file(const char *path, const char *data, size_t size, off_t offset, struct fuse_file_info *info) {
  (void)path;
  if (is_read_only) return -EROFS;
  COUNT(pwrite(file_of(info)->descriptor, data, size, offset));
}
static int synchronize(const char *path, int data_only, struct fuse_file_info *info) {
  tell(data_only ? "fdatasync" : "fsync", path);
  RESULT(fsync(file_of(info)->descriptor));
}
static int allocate(const char *path, int mode, off_t offset, off_t length, struct fuse_file_info *info) {
  (void)path;
  CHANGE(fallocate(file_of(info)->descriptor, mode, offset, length));
}
static off_t seek(const char *path, off_t offset, int whence, struct fuse_file_info *info) {
  (void)path;
  off_t found = lseek(file_of(info)->descriptor, offset, whence);
  return found < 0 ? -errno : found;
}

static int file_system_status(const char *path, struct statvfs *status) {
  (void)path;
  RESULT(fstatvfs(root, status));
}

static int set_attribute(const char *path, const char *name, const char *value, size_t size, int flags) {
  tell(name, path);
  CHANGE(lsetxattr(ABSOLUTE(path), name, value, size, flags));
}
static int get_attribute(const char *path, const char *name, char *value, size_t size) {
  COUNT(lgetxattr(ABSOLUTE(path), name, value, size));
}
static int list_attributes(const char *path, char *list, size_t size) { COUNT(llistxattr(ABSOLUTE(path), list, size)); }
static int remove_attribute(const char *path, const char *name) { CHANGE(lremovexattr(ABSOLUTE(path), name)); }

static int open_directory(const char *path, struct fuse_file_info *info) {
  return keep(openat(root, below(path), O_RDONLY | O_DIRECTORY), info);
}
static int read_directory(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset,
                          struct fuse_file_info *info, enum fuse_readdir_flags flags) {
  (void)path, (void)offset, (void)flags;
  DIR *stream = fdopendir(openat(file_of(info)->descriptor, ".", O_RDONLY | O_DIRECTORY));
  if (!stream) return -errno;
  for (struct dirent *entry; (entry = readdir(stream));) {
    struct stat status = {.st_ino = entry->d_ino, .st_mode = (mode_t)entry->d_type << 12};
    if (fill(buffer, entry->d_name, &status, 0, 0)) break;
  }
  closedir(stream);
  return 0;
}

/// Locks of fcntl(2). Each open file here is one of the kernel's, whose locks of open file descriptions stand for all.
/// After a close(2) libfuse unlocks for the process that called it, which concerns POSIX locks alone.
static int lock_file(const char *path, struct fuse_file_info *info, int command, struct flock *lock) {
  (void)path;
  struct file *file = file_of(info);
  if (is_fenced && file->owner) return -EBADFD;
  lock->l_pid = 0;
  if (lock->l_type == F_UNLCK && file->owner != info->lock_owner) return 0;
  command = command == F_GETLK ? F_OFD_GETLK : command == F_SETLK ? F_OFD_SETLK : F_OFD_SETLKW;
  if (fcntl(file->descriptor, command, lock) < 0) return -errno;
  if (command != F_OFD_GETLK) file->owner = info->lock_owner;
  return 0;
}
static void *initialise(struct fuse_conn_info *connection, struct fuse_config *configuration) {
  connection->want &= ~(unsigned)FUSE_CAP_FLOCK_LOCKS;
  configuration->use_ino = 1;
  configuration->nullpath_ok = 0;
  configuration->hard_remove = 1;
  configuration->attr_timeout = configuration->entry_timeout = configuration->negative_timeout = 0;
  return NULL;
}

static void refuse_changes(int number) { is_read_only = number == SIGUSR1; }

static void give_locks_away(int number) {
  struct flock all = {.l_type = F_UNLCK};
  for (int descriptor = 3; descriptor < 1024; descriptor++) fcntl(descriptor, F_OFD_SETLK, &all);
  is_fenced = number == SIGVTALRM;
}

static const struct fuse_operations operations = {
    .init = initialise,          .getattr = get_attributes,     .readlink = read_link,
    .mknod = make_node,          .mkdir = make_directory,       .unlink = remove_file,
    .rmdir = remove_directory,   .symlink = make_link,          .rename = change_name,
    .link = add_name,            .chmod = change_mode,          .chown = change_owner,
    .truncate = change_length,   .utimens = change_times,       .open = open_file,
    .create = create_file,       .release = release_file,       .read = read_file,
    .write = write_file,         .fsync = synchronize,          .fallocate = allocate,
    .lseek = seek,               .statfs = file_system_status,  .setxattr = set_attribute,
    .getxattr = get_attribute,   .listxattr = list_attributes,  .removexattr = remove_attribute,
    .opendir = open_directory,   .readdir = read_directory,     .releasedir = release_file,
    .fsyncdir = synchronize,     .lock = lock_file,
};

int main(int count, char **arguments) {
  if (count != 3) return 64;
  root = open(arguments[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) {
    perror(arguments[1]);
    return 1;
  }
  umask(0);
  struct sigaction action = {.sa_handler = refuse_changes, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGUSR2, &action, NULL);
  action.sa_handler = give_locks_away;
  sigaction(SIGPWR, &action, NULL);
  sigaction(SIGVTALRM, &action, NULL);
  char *own[] = {arguments[0], "-f", "-o", "allow_other,default_permissions,fsname=network", arguments[2]};
  return fuse_main(sizeof own / sizeof *own, own, &operations, NULL);
}
