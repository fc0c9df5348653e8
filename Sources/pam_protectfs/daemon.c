// Calls of the daemon's Varlink interface (Documentation/PROTOCOL.md), each on a connection of its own.
//
// Who gets the secret: the main process of the user's unit, and nobody else. The directory of the sockets belongs to
// the user, so a process of the user can put a socket of its own there. The kernel names the process that listens
// (SO_PEERCRED), and systemd the one that it has started. A process number may be used again, so one that listened and
// ended earlier could have had the same: but systemd makes the directory when the unit's process has its number
// already, and the socket is one that was made in this directory. A symbolic link to another is not followed.
#define _GNU_SOURCE
#include "include/pam_protectfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/// An attempt costs scrypt a second at most; others of the same user may come first.
static const long long reply_milliseconds = 15000;

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

/// Connects to a socket in a directory, if the main process of the unit listens on it.
static int connect_to(int directory, const char *name, uid_t user, pid_t process) {
  const int file = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return -1;
  struct stat status, place;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d", file);
  int connection = -1;
  if (fstat(file, &status) == 0 && fstat(directory, &place) == 0 && S_ISSOCK(status.st_mode) &&
      status.st_uid == user && status.st_dev == place.st_dev)
    connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  struct ucred peer;
  socklen_t length = sizeof peer;
  // Without waiting: a socket whose queue is full is not the daemon's, which takes what comes.
  if (connection >= 0 && (connect(connection, (struct sockaddr *)&address, sizeof address) < 0 ||
                          getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0 ||
                          peer.pid != process || peer.uid != user)) {
    close(connection);
    connection = -1;
  }
  close(file);
  return connection;
}

/// Connects to the daemon that the user's unit is; -1 for none.
static int connect_to_daemon(uid_t user) {
  const pid_t process = protectfs_unit_process(user);
  if (!process) return -1;
  char path[64];
  snprintf(path, sizeof path, "/run/protectfs-user/%u/protectfs", user);
  const int directory = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (directory < 0) return -1;
  DIR *names = fdopendir(directory);
  if (!names) {
    close(directory);
    return -1;
  }
  int connection = -1;
  const struct dirent *entry;
  for (int left = 1000; left > 0 && connection < 0 && (entry = readdir(names)); left--)
    if (entry->d_type == DT_SOCK) connection = connect_to(dirfd(names), entry->d_name, user, process);
  closedir(names);
  return connection;
}

/// Sends a call with its NUL, and receives what is said first of the reply, as text. False when that fails or is late.
static bool exchange(int connection, const char *call, size_t length, char *reply, size_t size) {
  // It fits into the socket's buffer as a whole.
  if (send(connection, call, length + 1, MSG_NOSIGNAL) != (ssize_t)(length + 1)) return false;
  const long long deadline = protectfs_now() + reply_milliseconds;
  size_t received = 0;
  while (received < size - 1) {
    const long long left = deadline - protectfs_now();
    struct pollfd wait = {.fd = connection, .events = POLLIN};
    const int ready = left > 0 ? poll(&wait, 1, (int)left) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t count = recv(connection, reply + received, size - 1 - received, 0);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) return false;
    received += (size_t)count;
    if (!reply[received - 1]) return true;
  }
  reply[received] = 0;
  return true;
}

static enum protectfs_outcome call(uid_t user, const char *call, size_t length) {
  char reply[16384];
  const int connection = connect_to_daemon(user);
  if (connection < 0) return PROTECTFS_UNREACHABLE;
  const bool has_replied = exchange(connection, call, length, reply, sizeof reply);
  close(connection);
  if (!has_replied) return PROTECTFS_UNREACHABLE;
  if (strstr(reply, "\"org.protectfs.Daemon.WrongPasscode\"")) return PROTECTFS_WRONG_PASSCODE;
  if (strstr(reply, "\"error\":")) return PROTECTFS_REFUSED;
  return strstr(reply, "\"state\":\"unlocked\"") ? PROTECTFS_UNLOCKED : PROTECTFS_DONE;
}

/// Calls a method with the passcode, and the new one if there is one. Root says that no wrong one counts; others may
/// not say so.
static enum protectfs_outcome call_with(uid_t user, const char *method, struct protectfs_secret *secret) {
  secret->length = 0;
  const bool is_complete =
      append(secret, "{\"method\":\"org.protectfs.Daemon.") && append(secret, method) &&
      append(secret, geteuid() == 0 ? "\",\"parameters\":{\"login\":true,\"" : "\",\"parameters\":{\"") &&
      append_passcode(secret, "passcode\":\"", secret->passcode) &&
      (!*secret->new_passcode || append_passcode(secret, ",\"newPasscode\":\"", secret->new_passcode)) &&
      append(secret, "}}");
  const enum protectfs_outcome outcome =
      is_complete ? call(user, secret->message, secret->length) : PROTECTFS_REFUSED;
  explicit_bzero(secret->message, sizeof secret->message);
  return outcome;
}

enum protectfs_outcome protectfs_daemon_unlock(uid_t user, struct protectfs_secret *secret) {
  *secret->new_passcode = 0;
  return call_with(user, "Unlock", secret);
}

enum protectfs_outcome protectfs_daemon_change_passcode(uid_t user, struct protectfs_secret *secret) {
  return call_with(user, "ChangePasscode", secret);
}

enum protectfs_outcome protectfs_daemon_state(uid_t user) {
  static const char message[] = "{\"method\":\"org.protectfs.Daemon.GetStatus\"}";
  return call(user, message, sizeof message - 1);
}
