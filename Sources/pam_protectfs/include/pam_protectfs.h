// The parts of the PAM module; nothing of it is for other programs, and only pam_sm_* are exported.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#pragma GCC visibility push(hidden)

/// The longest passcode that a store takes, in bytes.
enum { PROTECTFS_LONGEST_PASSCODE = 1024 };

/// A passcode that the module keeps from the authentication to the session: locked in memory, out of core dumps, wiped.
struct protectfs_secret {
  uid_t user;
  size_t length;
  char passcode[PROTECTFS_LONGEST_PASSCODE + 1];
  char new_passcode[PROTECTFS_LONGEST_PASSCODE + 1];
  /// A call with both, each byte of which may become six.
  char message[2 * 6 * PROTECTFS_LONGEST_PASSCODE + 256];
};

/// Room for a secret; NULL without memory, or without memory that can be locked.
struct protectfs_secret *protectfs_secret_make(void);
/// Wipes it and gives it back; NULL is none.
void protectfs_secret_free(struct protectfs_secret *secret);
/// Takes a passcode over. False for one that no store can have: empty, too long, no UTF-8.
bool protectfs_secret_take(char *place, const char *passcode);

/// What is set for a user's logins.
struct protectfs_settings {
  char mount_point[1024];
};

/// A user, as the password database has them.
struct protectfs_user {
  uid_t user;
  gid_t group;
  const char *name;
  const char *home;
};

/// Reads what `protectfs login enable` has written, with the user's own rights. False where it is not on, or the home
/// directory does not answer in time.
bool protectfs_settings_read(const struct protectfs_user *user, struct protectfs_settings *settings);

/// Starts the user's unit, which mounts; false where it did not start. Root only.
bool protectfs_unit_start(uid_t user);
/// The main process of the user's unit; 0 where it does not run.
pid_t protectfs_unit_process(uid_t user);

/// What came of a call.
enum protectfs_outcome {
  PROTECTFS_DONE,
  /// It is what was asked for already.
  PROTECTFS_UNLOCKED,
  PROTECTFS_WRONG_PASSCODE,
  /// Any other error that the daemon names.
  PROTECTFS_REFUSED,
  /// No daemon that may be trusted was reached, or none that answered in time.
  PROTECTFS_UNREACHABLE,
};

/// Unlocks the mount that the user's unit serves.
enum protectfs_outcome protectfs_daemon_unlock(uid_t user, struct protectfs_secret *secret);
/// Has its store take `new_passcode` in place of `passcode`.
enum protectfs_outcome protectfs_daemon_change_passcode(uid_t user, struct protectfs_secret *secret);
/// Whether it is unlocked: `PROTECTFS_UNLOCKED`, or `PROTECTFS_DONE` for a mount that is locked.
enum protectfs_outcome protectfs_daemon_state(uid_t user);

/// The time that a deadline is compared with, in milliseconds.
long long protectfs_now(void);

#pragma GCC visibility pop
