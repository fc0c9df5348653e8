#include "item.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct protectfs_testing_calls stand_in;
static atomic_int count;
static _Thread_local int depth;
static _Thread_local unsigned long answered;

void protectfs_testing_answer_with(const struct protectfs_testing_calls *calls) { stand_in = *calls; }

void protectfs_testing_add_stand_in(void) { atomic_fetch_add(&count, 1); }

void protectfs_testing_remove_stand_in(void) { atomic_fetch_sub(&count, 1); }

void protectfs_testing_enter(void) {
  depth++;
  answered++;
}

void protectfs_testing_leave(void) { depth--; }

unsigned long protectfs_testing_answered(void) { return answered; }

int has_stand_in(void) { return atomic_load(&count) > 0 && depth == 0; }

int is_inside(int descriptor) {
  char link[32], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  // The UUID that TemporaryProtectedDirectory has put there follows, and then the stand-in's own name.
  static const char parent[] = "/protectfs-testing.", name[] = "/stand-in";
  const char *at = strstr(path, parent);
  if (!at || strlen(at) < sizeof parent - 1 + 36) return 0;
  at += sizeof parent - 1 + 36;
  return strncmp(at, name, sizeof name - 1) == 0 && (at[sizeof name - 1] == '/' || at[sizeof name - 1] == 0);
}

static int only_inside(int item) {
  if (item < 0 || is_inside(item)) return item;
  close_item(item);
  return -1;
}

int find_item(int directory, const char *path, int follow, int *exists) {
  int error = errno;
  int item = (int)syscall(SYS_openat, directory, path, O_PATH | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW));
  if (exists) *exists = item >= 0;
  item = only_inside(item);
  errno = error;
  return item;
}

int find_open_item(int descriptor) {
  int error = errno, item = -1;
  if (is_inside(descriptor)) {
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    item = (int)syscall(SYS_openat, AT_FDCWD, link, O_PATH | O_CLOEXEC);
  }
  errno = error;
  return item;
}

int find_flagged_item(int directory, const char *path, int flags) {
  if (flags & AT_EMPTY_PATH && (!path || !*path)) return find_open_item(directory);
  return find_item(directory, path, !(flags & AT_SYMLINK_NOFOLLOW), NULL);
}

int open_parent(int directory, const char *path, char name[NAME_MAX + 1]) {
  char parent[PATH_MAX];
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/') length--;
  size_t start = length;
  while (start > 0 && path[start - 1] != '/') start--;
  if (length >= sizeof parent || length - start > NAME_MAX) return -1;
  memcpy(name, path + start, length - start);
  name[length - start] = 0;
  memcpy(parent, path, start);
  parent[start] = 0;
  return (int)syscall(SYS_openat, directory, start ? parent : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

void close_item(int item) {
  int error = errno;
  if (item >= 0) syscall(SYS_close, item);
  errno = error;
}

long finish(long answer) {
  if (answer >= 0) return answer;
  errno = (int)-answer;
  return -1;
}
