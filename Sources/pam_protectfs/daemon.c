// Calls of the daemon's Varlink interface (Documentation/PROTOCOL.md).
//
// Who gets the secret: the service of the user's logins, and nobody else. systemd listens on its socket, in a directory
// of root's, and gives it to the daemon (packaging/systemd/protectfs-user@.socket). The user's processes can put no
// socket of theirs there.
#define _GNU_SOURCE
#include "include/pam_protectfs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/// A daemon says at once what its state is, unless it was stopped.
static const long long state_milliseconds = 5000;

int protectfs_daemon_connect(uid_t user) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "/run/protectfs-user/%u.socket", user);
  // Without waiting: a daemon that takes no connections does not answer either.
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connection < 0 || connect(connection, (struct sockaddr *)&address, sizeof address) == 0) return connection;
  close(connection);
  return -1;
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
