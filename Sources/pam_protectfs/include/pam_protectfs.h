// The parts of the PAM module; nothing of it is for other programs, and only pam_sm_* are exported.
#pragma once
#include <security/pam_modules.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#pragma GCC visibility push(hidden)

// MARK: Time

/// The time that a deadline is compared with, in milliseconds.
long long protectfs_now(void);
/// The time in so many milliseconds, or the deadline if that is sooner.
long long protectfs_within(long long milliseconds, long long deadline);
/// Waits until there is something to read from a descriptor, or its other end is closed; false when the time is up.
bool protectfs_wait(int descriptor, long long deadline);

// MARK: Secrets

/// The longest passcode that a store takes, in bytes.
enum { PROTECTFS_LONGEST_PASSCODE = 1024 };

/// A passcode that the module keeps from the authentication to the session: locked in memory, out of core dumps and of
/// processes that are forked meanwhile, wiped.
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

/// Puts question marks for control characters, and for what is no UTF-8: a terminal would obey them.
void protectfs_make_printable(char *text);

// MARK: Processes

/// What a child process does. It writes to its standard output, and ends the process by _exit(2). Of the C library it
/// may call what is async-signal-safe, and no function that deals with all threads, as setuid(3) does.
typedef void (*protectfs_child_body)(const void *context);

/// Runs a child process. Returns its exit status, or -1 where it did not exit in time; `output` is then what it wrote,
/// cut to size. The calling program does not notice: neither its handler of SIGCHLD nor its wait(2) sees the child.
int protectfs_child_run(
    protectfs_child_body body, const void *context, char *output, size_t size, long long deadline);
/// In a child: runs a program, with an environment of its own, and ends as that does.
void protectfs_child_execute(const char *path, const char *const *arguments);
/// In a child: its memory, a copy of the calling program's, can be neither dumped nor traced. To be repeated when it
/// has become another user.
void protectfs_child_conceal(void);

/// The standard descriptors that the calling program has closed are /dev/null while the module works: no descriptor of
/// the module's gets such a number, to which the program could write.
struct protectfs_standard {
  bool is_filled[3];
};
struct protectfs_standard protectfs_standard_fill(void);
void protectfs_standard_empty(struct protectfs_standard *standard);

// MARK: Users

/// A user, as the password database has them.
struct protectfs_user {
  uid_t user;
  gid_t group;
  const char *name;
  const char *home;
};

struct protectfs_account {
  struct protectfs_user user;
  /// Somebody became the same user, and so has a session.
  bool has_session;
  /// What the names of the user are in.
  char *storage;
};
/// Who logs in. Not root, who has no store of this kind; nor whom somebody becomes who is in already, which is what
/// PAM_RUSER says: su(1), sudo(8) and their like set it, logins and screen lockers do not. Who becomes the same user by
/// su(1) logs in.
bool protectfs_account_find(pam_handle_t *pam, struct protectfs_account *account);
void protectfs_account_free(struct protectfs_account *account);

/// What is set for a user's logins, as it is printed on a terminal.
struct protectfs_settings {
  char backing[1024];
  char mount_point[1024];
};

enum protectfs_found {
  PROTECTFS_FOUND,
  /// Nothing is on for the user's logins.
  PROTECTFS_NONE,
  /// The home directory did not say, or is not there yet.
  PROTECTFS_UNKNOWN,
};

/// Reads what `protectfs login enable` has written, with the user's own rights. The home directory has five seconds.
enum protectfs_found protectfs_settings_read(
    const struct protectfs_user *user, struct protectfs_settings *settings, long long deadline);

/// Says whether the session that a mount is for is there already, for 'protectfs login watch', which awaits it
/// otherwise.
void protectfs_unit_expect(uid_t user, bool has_session);

/// Has the user's unit mount, and a session awaited for it, anew where one was awaited or has ended. False where it is
/// not mounted then. Root only.
bool protectfs_unit_start(uid_t user, long long deadline);

// MARK: The daemon

/// What came of a call.
enum protectfs_outcome {
  PROTECTFS_DONE,
  /// It is what was asked for already.
  PROTECTFS_UNLOCKED,
  PROTECTFS_WRONG_PASSCODE,
  /// Any other error that the daemon names.
  PROTECTFS_REFUSED,
  /// The daemon was not reached, or did not answer in time.
  PROTECTFS_UNREACHABLE,
};

/// Connects to the daemon that the user's unit is, and to no other process; -1 for none.
int protectfs_daemon_connect(uid_t user);
/// Whether its mount is unlocked: `PROTECTFS_UNLOCKED`, or `PROTECTFS_DONE` for one that is locked.
enum protectfs_outcome protectfs_daemon_state(int connection, long long deadline);
/// Unlocks its mount.
enum protectfs_outcome protectfs_daemon_unlock(int connection, struct protectfs_secret *secret, long long deadline);
/// Has its store take `new_passcode` in place of `passcode`.
enum protectfs_outcome protectfs_daemon_change_passcode(
    int connection, struct protectfs_secret *secret, long long deadline);

// MARK: Calls of libpam

#define PROTECTFS_EXPORTED __attribute__((visibility("default")))
/// A variable at whose end a function is called.
#define PROTECTFS_ENDED_BY(function) __attribute__((cleanup(function)))
#define PROTECTFS_WITH_STANDARD_DESCRIPTORS \
  PROTECTFS_ENDED_BY(protectfs_standard_empty) struct protectfs_standard standard = protectfs_standard_fill()

/// When what a call of libpam waits for ends, if it begins now. Programs in which users log in have limits of their
/// own: util-linux's login(1) has a minute, of which the person has used some.
long long protectfs_deadline(void);
/// Has the store mounted, and asks whether it is unlocked. The connection stays, for the unlock; -1 for none.
enum protectfs_outcome protectfs_mount(uid_t user, int *connection, long long deadline);
/// In a login whose passcode had expired: its session shows that the new one counts.
void protectfs_passcode_finish_change(pam_handle_t *pam, long long deadline);

#pragma GCC visibility pop
