// Stands before rename(2), link(2), unlink(2) and their like.
#include "item.h"

#include <stdio.h>

/// Asks about an item that gets a name; closes it.
static long ask(int item, int directory, const char *path, unsigned flags) {
  char name[NAME_MAX + 1];
  int error = errno;
  int parent = item < 0 ? -1 : open_parent(directory, path, name);
  long answer = PROTECTFS_TESTING_PASS;
  if (parent >= 0 && (is_inside(item) || is_inside(parent))) {
    int replaced = (int)syscall(SYS_openat, parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    protectfs_testing_enter();
    answer = stand_in.move(item, parent, replaced, flags);
    protectfs_testing_leave();
    close_item(replaced);
  }
  close_item(parent);
  close_item(item);
  errno = error;
  return answer;
}

int renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned flags) {
  if (has_stand_in()) {
    int item = (int)syscall(SYS_openat, from_directory, from, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    long answer = ask(item, to_directory, to, flags);
    if (answer != PROTECTFS_TESTING_PASS) return (int)finish(answer);
  }
  return (int)syscall(SYS_renameat2, from_directory, from, to_directory, to, flags);
}

int renameat(int from_directory, const char *from, int to_directory, const char *to) {
  return renameat2(from_directory, from, to_directory, to, 0);
}

int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

int linkat(int from_directory, const char *from, int to_directory, const char *to, int flags) {
  if (has_stand_in()) {
    int follow = flags & AT_SYMLINK_FOLLOW ? 0 : O_NOFOLLOW;
    int item = (int)syscall(SYS_openat, from_directory, from, O_PATH | O_CLOEXEC | follow);
    long answer = ask(item, to_directory, to, 1 /* RENAME_NOREPLACE */);
    if (answer != PROTECTFS_TESTING_PASS) return (int)finish(answer);
  }
  return (int)syscall(SYS_linkat, from_directory, from, to_directory, to, flags);
}

int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int unlinkat(int directory, const char *path, int flags) {
  if (has_stand_in() && !(flags & AT_REMOVEDIR)) {
    int item = find_item(directory, path, 0, NULL);
    if (item >= 0) {
      long answer = ASK(item, unlink);
      if (answer != PROTECTFS_TESTING_PASS) return (int)finish(answer);
    }
  }
  return (int)syscall(SYS_unlinkat, directory, path, flags);
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

int remove(const char *path) {
  // As the C library does it (remove(3)).
  if (unlinkat(AT_FDCWD, path, 0) == 0) return 0;
  return errno == EISDIR ? unlinkat(AT_FDCWD, path, AT_REMOVEDIR) : -1;
}
