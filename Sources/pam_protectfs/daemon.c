// Calls of the daemon's Varlink interface (Documentation/PROTOCOL.md).
//
// Who gets the secret: the main process of the user's unit, and nobody else. The directory of the sockets belongs to
// the user, so a process of the user can put a socket of its own there, or mount something over it, which is not
// entered. The kernel names the process that listens, and systemd the one that it has started.
//
// A process number may be used again, so one that listened and ended earlier could have had the same. The kernel says
// whether the one that listens is still there (SO_PEERPIDFD). Kernels before 6.5 do not; for them: systemd makes the
// directory when the unit's process has its number already, and the socket is one that was made in this directory. A
// symbolic link to another is not followed.
#define _GNU_SOURCE
#include "include/pam_protectfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/// A daemon says at once what its state is, unless it was stopped.
static const long long state_milliseconds = 5000;

// MARK: The connection

/// Opens what is below a directory by no link, and on the same file system: what a user has mounted there could hang.
static int open_below(int directory, const char *path, uint64_t flags) {
  const struct open_how how = {
      .flags = flags | O_CLOEXEC,
      .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
  };
  return (int)syscall(SYS_openat2, directory, path, &how, sizeof how);
}

/// Whether the unit's main process listens at the other end of a connection, which is the process by an answer of
/// systemd's.
static bool is_main_process(int connection, uid_t user, pid_t process, long long deadline) {
  struct ucred peer;
  socklen_t length = sizeof peer;
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0 || peer.pid != process || peer.uid != user)
    return false;
  int descriptor = -1;
  length = sizeof descriptor;
  if (getsockopt(connection, SOL_SOCKET, SO_PEERPIDFD, &descriptor, &length) < 0) return errno == ENOPROTOOPT;
  // While the one that listens is there, its number is no other's: neither was it when systemd was asked again.
  const bool is_same = protectfs_unit_process(user, deadline) == process && !protectfs_wait(descriptor, 0);
  close(descriptor);
  return is_same;
}

/// Connects to a socket in a directory, if the main process of the unit listens on it.
static int connect_to(int directory, const char *name, uid_t user, pid_t process, long long deadline) {
  const int file = open_below(directory, name, O_PATH | O_NOFOLLOW);
  if (file < 0) return -1;
  struct stat status;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d", file);
  int connection = -1;
  if (fstat(file, &status) == 0 && S_ISSOCK(status.st_mode) && status.st_uid == user)
    connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  // Without waiting: a socket whose queue is full is not the daemon's, which takes what comes.
  if (connection >= 0 && (connect(connection, (struct sockaddr *)&address, sizeof address) < 0 ||
                          !is_main_process(connection, user, process, deadline))) {
    close(connection);
    connection = -1;
  }
  close(file);
  return connection;
}

int protectfs_daemon_connect(uid_t user, long long deadline) {
  const pid_t process = protectfs_unit_process(user, deadline);
  if (!process) return -1;
  char path[64];
  snprintf(path, sizeof path, "protectfs-user/%u/protectfs", user);
  const int run = open("/run", O_PATH | O_DIRECTORY | O_CLOEXEC);
  const int directory = run < 0 ? -1 : open_below(run, path, O_RDONLY | O_DIRECTORY);
  if (run >= 0) close(run);
  DIR *names = directory < 0 ? NULL : fdopendir(directory);
  if (!names) {
    if (directory >= 0) close(directory);
    return -1;
  }
  int connection = -1;
  const struct dirent *entry;
  for (int left = 1000; left > 0 && connection < 0 && (entry = readdir(names)); left--)
    if (entry->d_type == DT_SOCK) connection = connect_to(dirfd(names), entry->d_name, user, process, deadline);
  closedir(names);
  return connection;
}

// MARK: Calls

/// Appends text to a call; false where it has no room.
static bool append(struct protectfs_secret *call, const char *text) {
  const size_t length = strlen(text);
  if (length >= sizeof call->message - call->length) return false;
  memcpy(call->message + call->length, text, length + 1);
  call->length += length;
  return true;
}

/// Appends a member with a passcode, which is UTF-8, as JSON has it (RFC 8259, section 7).
static bool append_passcode(struct protectfs_secret *call, const char *name, const char *passcode) {
  static const char digits[] = "0123456789abcdef";
  if (!append(call, name)) return false;
  for (const char *c = passcode; *c; c++) {
    const unsigned char byte = (unsigned char)*c;
    const bool is_escaped = byte < 0x20 || byte == '"' || byte == '\\' || byte == 0x7f;
    char text[8] = {*c, 0};
    if (is_escaped) memcpy(text, (char[]){'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15], 0}, 7);
    const bool is_done = append(call, text);
    explicit_bzero(text, sizeof text);
    if (!is_done) return false;
  }
  return append(call, "\"");
}

/// Sends a call with its NUL, and receives what is said first of the reply, as text. False when that fails or is late.
static bool exchange(int connection, const char *call, size_t length, char *reply, size_t size, long long deadline) {
  // It fits into the socket's buffer as a whole.
  if (send(connection, call, length + 1, MSG_NOSIGNAL) != (ssize_t)(length + 1)) return false;
  size_t received = 0;
  while (received < size - 1) {
    if (!protectfs_wait(connection, deadline)) return false;
    const ssize_t count = recv(connection, reply + received, size - 1 - received, 0);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) return false;
    received += (size_t)count;
    if (!reply[received - 1]) return true;
  }
  reply[received] = 0;
  return true;
}

static enum protectfs_outcome call(int connection, const char *call, size_t length, long long deadline) {
  char reply[16384];
  if (!exchange(connection, call, length, reply, sizeof reply, deadline)) return PROTECTFS_UNREACHABLE;
  if (strstr(reply, "\"org.protectfs.Daemon.WrongPasscode\"")) return PROTECTFS_WRONG_PASSCODE;
  if (strstr(reply, "\"error\":")) return PROTECTFS_REFUSED;
  return strstr(reply, "\"state\":\"unlocked\"") ? PROTECTFS_UNLOCKED : PROTECTFS_DONE;
}

/// Calls a method with the passcode, and the new one if there is one. Root says that no wrong one counts; others may
/// not say so.
static enum protectfs_outcome call_with(
    int connection, const char *method, struct protectfs_secret *secret, long long deadline) {
  secret->length = 0;
  const bool is_complete =
      append(secret, "{\"method\":\"org.protectfs.Daemon.") && append(secret, method) &&
      append(secret, geteuid() == 0 ? "\",\"parameters\":{\"login\":true,\"" : "\",\"parameters\":{\"") &&
      append_passcode(secret, "passcode\":\"", secret->passcode) &&
      (!*secret->new_passcode || append_passcode(secret, ",\"newPasscode\":\"", secret->new_passcode)) &&
      append(secret, "}}");
  const enum protectfs_outcome outcome =
      is_complete ? call(connection, secret->message, secret->length, deadline) : PROTECTFS_REFUSED;
  explicit_bzero(secret->message, sizeof secret->message);
  return outcome;
}

enum protectfs_outcome protectfs_daemon_state(int connection, long long deadline) {
  static const char message[] = "{\"method\":\"org.protectfs.Daemon.GetStatus\"}";
  return call(connection, message, sizeof message - 1, protectfs_within(state_milliseconds, deadline));
}

enum protectfs_outcome protectfs_daemon_unlock(int connection, struct protectfs_secret *secret, long long deadline) {
  *secret->new_passcode = 0;
  return call_with(connection, "Unlock", secret, deadline);
}

enum protectfs_outcome protectfs_daemon_change_passcode(
    int connection, struct protectfs_secret *secret, long long deadline) {
  return call_with(connection, "ChangePasscode", secret, deadline);
}
