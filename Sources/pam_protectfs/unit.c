// The user's settings and units.
#define _GNU_SOURCE
#include "include/pam_protectfs.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// MARK: Settings

struct settings_request {
  const struct protectfs_user *user;
  gid_t groups[256];
  int group_count;
  char path[4096];
};

/// Becomes the user, and copies the file of settings to standard output. As root, links and devices that the user has
/// put in its place could be followed, and a network file system could know root as nobody. The exit status is what is
/// found.
static void copy_settings(const void *context) {
  const struct settings_request *request = context;
  const struct protectfs_user *user = request->user;
  if (geteuid() == 0) {
    if (syscall(SYS_setgroups, (size_t)request->group_count, request->groups) < 0) return;
    if (syscall(SYS_setresgid, user->group, user->group, user->group) < 0) return;
    if (syscall(SYS_setresuid, user->user, user->user, user->user) < 0) return;
    protectfs_child_conceal();
  }
  char content[4096];
  const int file = open(request->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file >= 0) {
    const ssize_t count = read(file, content, sizeof content);
    _exit(count > 0 && write(1, content, (size_t)count) == count ? PROTECTFS_FOUND : PROTECTFS_UNKNOWN);
  }
  if (errno != ENOENT && errno != ENOTDIR) _exit(PROTECTFS_UNKNOWN);
  // In a home directory that is empty, or not there, the session may mount it (pam_mount). Empty are 48 bytes, of the
  // entries '.' and '..'.
  const int home = open(user->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const long count = home < 0 ? -1 : syscall(SYS_getdents64, home, content, sizeof content);
  _exit(count > 48 ? PROTECTFS_NONE : PROTECTFS_UNKNOWN);
}

/// Takes the value of a line over, if it is the one of a name and a path.
static void take_path(char *place, size_t size, const char *line, const char *name) {
  const size_t length = strlen(name);
  if (strncmp(line, name, length) != 0 || line[length] != '/' || strlen(line + length) >= size) return;
  strcpy(place, line + length);
  protectfs_make_printable(place);
}

enum protectfs_found protectfs_settings_read(
    const struct protectfs_user *user, struct protectfs_settings *settings, long long deadline) {
  struct settings_request request = {.user = user, .group_count = 256};
  // The first 256 do.
  if (getgrouplist(user->name, user->group, request.groups, &request.group_count) < 0) request.group_count = 256;
  const int length =
      snprintf(request.path, sizeof request.path, "%s/.config/protectfs/login.conf", user->home);
  if (length < 0 || (size_t)length >= sizeof request.path) return PROTECTFS_NONE;
  char content[4097];
  const int found =
      protectfs_child_run(copy_settings, &request, content, sizeof content, protectfs_within(5000, deadline));
  if (found != PROTECTFS_FOUND) return found == PROTECTFS_NONE ? PROTECTFS_NONE : PROTECTFS_UNKNOWN;
  *settings = (struct protectfs_settings){"", ""};
  char *rest = content;
  for (char *line; (line = strsep(&rest, "\n"));) {
    take_path(settings->backing, sizeof settings->backing, line, "BACKING=");
    take_path(settings->mount_point, sizeof settings->mount_point, line, "MOUNTPOINT=");
  }
  return *settings->backing && *settings->mount_point ? PROTECTFS_FOUND : PROTECTFS_NONE;
}

// MARK: The units

static void run_systemctl(const void *context) {
  // passwd(1) is run by a user, with root's rights.
  if (geteuid() == 0 && (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)) return;
  protectfs_child_execute("/usr/bin/systemctl", context);
}

void protectfs_unit_expect(uid_t user, bool has_session) {
  char path[64];
  snprintf(path, sizeof path, "/run/protectfs-user/%u.session", user);
  if (!has_session) {
    unlink(path);
    return;
  }
  // The umask is the caller's.
  if (mkdir("/run/protectfs-user", 0755) == 0) chmod("/run/protectfs-user", 0755);
  const int file = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0444);
  if (file >= 0) close(file);
}

bool protectfs_unit_start(uid_t user, long long deadline) {
  char unit[64], output[64];
  // It requires protectfs-user@, which mounts. Restarted, it awaits a session anew: one that was about to end the
  // mount, because the last session has ended, either does so no more, or has done it when it is started again.
  snprintf(unit, sizeof unit, "protectfs-logout@%u.service", user);
  const char *const arguments[] = {"systemctl", "--quiet", "--no-ask-password", "restart", unit, NULL};
  return protectfs_child_run(run_systemctl, arguments, output, sizeof output, deadline) == 0;
}
