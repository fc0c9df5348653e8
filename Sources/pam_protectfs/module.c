// What libpam calls: the passcode of a login unlocks the user's store. Nothing here refuses anybody: every function
// returns PAM_IGNORE, and all that it waits for has one deadline.
#define _GNU_SOURCE
#include "include/pam_protectfs.h"

#include <errno.h>
#include <pwd.h>
#include <security/pam_ext.h>
#include <security/pam_modules.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
/// A variable at whose end a function is called.
#define ENDED_BY(function) __attribute__((cleanup(function)))
#define WITH_STANDARD_DESCRIPTORS \
  ENDED_BY(protectfs_standard_empty) struct protectfs_standard standard = protectfs_standard_fill()

/// What each call may take. Programs in which users log in have limits of their own: util-linux's login(1) has a
/// minute, of which the person has used some.
static long long get_deadline(void) { return protectfs_now() + 25000; }

static const char data_name[] = "protectfs_secret";

struct account {
  struct protectfs_user user;
  /// What the names of the user are in.
  char *storage;
};

static void free_account(struct account *account) { free(account->storage); }

/// The entry of the password database, which may be long.
static struct passwd *find_entry(const char *name, struct passwd *entry, char **storage) {
  struct passwd *found = NULL;
  int result = ERANGE;
  for (size_t size = 4096; result == ERANGE && size <= 1 << 20; size *= 2) {
    free(*storage);
    if (!(*storage = malloc(size))) return NULL;
    result = getpwnam_r(name, entry, *storage, size, &found);
  }
  return result == 0 ? found : NULL;
}

/// Programs in which somebody who is in already becomes another. They can be told not to set PAM_RUSER.
static bool is_change_of_user(pam_handle_t *pam) {
  static const char *const services[] = {"su", "su-l", "sudo", "sudo-i", "doas", "runuser", "runuser-l"};
  const void *service = NULL;
  if (pam_get_item(pam, PAM_SERVICE, &service) != PAM_SUCCESS || !service) return false;
  for (size_t index = 0; index < sizeof services / sizeof *services; index++)
    if (strcmp(service, services[index]) == 0) return true;
  return false;
}

/// Who logs in. Not root, who has no store of this kind; nor whom somebody becomes who is in already, which is what
/// PAM_RUSER says: su(1), sudo(8) and their like set it, logins and screen lockers do not.
static bool find_account(pam_handle_t *pam, struct account *account) {
  const void *asker = NULL;
  const char *name = NULL;
  struct passwd entry;
  if (pam_get_item(pam, PAM_RUSER, &asker) != PAM_SUCCESS || (asker && *(const char *)asker)) return false;
  if (is_change_of_user(pam)) return false;
  if (pam_get_user(pam, &name, NULL) != PAM_SUCCESS || !name) return false;
  const struct passwd *found = find_entry(name, &entry, &account->storage);
  if (!found || !found->pw_uid || !found->pw_dir || *found->pw_dir != '/') return false;
  account->user = (struct protectfs_user){found->pw_uid, found->pw_gid, found->pw_name, found->pw_dir};
  return true;
}

// MARK: The passcode of the transaction

static void free_data(pam_handle_t *pam, void *data, int status) {
  (void)pam, (void)status;
  protectfs_secret_free(data);
}

/// The passcode that this transaction has authenticated the user with; NULL for none, or another user's.
static struct protectfs_secret *kept_secret(pam_handle_t *pam, uid_t user) {
  const void *data = NULL;
  if (pam_get_data(pam, data_name, &data) != PAM_SUCCESS || !data) return NULL;
  struct protectfs_secret *secret = (struct protectfs_secret *)data;
  return secret->user == user ? secret : NULL;
}

static void keep_secret(pam_handle_t *pam, uid_t user, const char *passcode) {
  struct protectfs_secret *secret = protectfs_secret_make();
  if (!secret) return;
  secret->user = user;
  if (!protectfs_secret_take(secret->passcode, passcode) ||
      pam_set_data(pam, data_name, secret, free_data) != PAM_SUCCESS)
    protectfs_secret_free(secret);
}

static void drop_secret(pam_handle_t *pam) { pam_set_data(pam, data_name, NULL, NULL); }

// MARK: Unlocking

/// Tries the passcode. It is tried once: the caller drops it then.
static enum protectfs_outcome unlock(
    pam_handle_t *pam, int connection, struct protectfs_secret *secret, long long deadline) {
  const enum protectfs_outcome outcome = protectfs_daemon_unlock(connection, secret, deadline);
  pam_syslog(
      pam, outcome == PROTECTFS_DONE ? LOG_INFO : LOG_NOTICE, "store of user %u: %s", secret->user,
      outcome == PROTECTFS_DONE             ? "unlocked"
      : outcome == PROTECTFS_WRONG_PASSCODE ? "stays locked, its passcode is another"
      : outcome == PROTECTFS_REFUSED        ? "stays locked, its daemon refused"
                                            : "stays locked, its daemon did not answer");
  return outcome;
}

/// Tells the user what came of an unlock, unless all is well.
static void tell(pam_handle_t *pam, int flags, enum protectfs_outcome outcome, const char *mount_point) {
  if (flags & PAM_SILENT) return;
  switch (outcome) {
    case PROTECTFS_DONE:
    case PROTECTFS_UNLOCKED: return;
    case PROTECTFS_WRONG_PASSCODE:
      pam_info(
          pam,
          "%s stays locked: its passcode is not the login passcode any more.\n"
          "Unlock it with the old one, 'protectfs unlock %s'; then 'protectfs passcode change %s' puts that right.",
          mount_point, mount_point, mount_point);
      return;
    case PROTECTFS_REFUSED:
    case PROTECTFS_UNREACHABLE:
      pam_info(pam, "%s could not be unlocked; 'protectfs unlock %s' unlocks it, or says why.", mount_point, mount_point);
  }
}

/// Unlocks for a screen locker, where no session follows: what is mounted, and nothing else.
static void unlock_for_locker(pam_handle_t *pam, int flags) {
  const long long deadline = get_deadline();
  ENDED_BY(free_account) struct account account = {0};
  struct protectfs_settings settings;
  if (!find_account(pam, &account)) return;
  struct protectfs_secret *secret = kept_secret(pam, account.user.user);
  if (!secret) return;
  if (protectfs_settings_read(&account.user, &settings, deadline) != PROTECTFS_FOUND) {
    drop_secret(pam);
    return;
  }
  const int connection = protectfs_daemon_connect(account.user.user);
  enum protectfs_outcome outcome = PROTECTFS_UNREACHABLE;
  if (connection >= 0) {
    outcome = unlock(pam, connection, secret, deadline);
    close(connection);
  }
  drop_secret(pam);
  tell(pam, flags, outcome, settings.mount_point);
}

// MARK: Authentication

/// Keeps the passcode that the modules before it have accepted: the stack does not come here otherwise.
EXPORTED int pam_sm_authenticate(pam_handle_t *pam, int flags, int argc, const char **argv) {
  (void)argc, (void)argv;
  WITH_STANDARD_DESCRIPTORS;
  ENDED_BY(free_account) struct account account = {0};
  struct protectfs_settings settings;
  const void *passcode = NULL;
  // Of an earlier authentication in the same transaction.
  drop_secret(pam);
  if (pam_get_item(pam, PAM_AUTHTOK, &passcode) != PAM_SUCCESS || !passcode) return PAM_IGNORE;
  if (!find_account(pam, &account)) return PAM_IGNORE;
  // Of most users there is no store. A home directory that does not say may do so when the session is opened.
  if (protectfs_settings_read(&account.user, &settings, get_deadline()) == PROTECTFS_NONE) return PAM_IGNORE;
  keep_secret(pam, account.user.user, passcode);
  // Without root's rights nobody opens a session: this is a screen locker of the user's.
  if (geteuid() != 0) unlock_for_locker(pam, flags);
  return PAM_IGNORE;
}

/// A locker with root's rights refreshes credentials; a login establishes them, and its session follows.
EXPORTED int pam_sm_setcred(pam_handle_t *pam, int flags, int argc, const char **argv) {
  (void)argc, (void)argv;
  WITH_STANDARD_DESCRIPTORS;
  if (flags & (PAM_REFRESH_CRED | PAM_REINITIALIZE_CRED)) unlock_for_locker(pam, flags);
  return PAM_IGNORE;
}

// MARK: Passcode

/// Has the store mounted, and asks whether it is unlocked. The connection stays, for the unlock; -1 for none.
static enum protectfs_outcome mount_store(uid_t user, int *connection, long long deadline) {
  enum protectfs_outcome outcome = PROTECTFS_UNREACHABLE;
  // Twice: the end of the last session, or an unmount, may have ended it meanwhile.
  for (int attempt = 0; attempt < 2 && outcome == PROTECTFS_UNREACHABLE; attempt++) {
    if (*connection >= 0) close(*connection);
    *connection = -1;
    if (!protectfs_unit_start(user, deadline)) continue;
    *connection = protectfs_daemon_connect(user);
    if (*connection >= 0) outcome = protectfs_daemon_state(*connection, deadline);
    if (outcome == PROTECTFS_UNREACHABLE) usleep(250000);
  }
  return outcome;
}

/// Has the store take the new passcode. Where it is not mounted, it is mounted for that, and unmounted after a minute
/// unless there is a session.
static enum protectfs_outcome change_passcode(uid_t user, struct protectfs_secret *secret, long long deadline) {
  int connection = protectfs_daemon_connect(user);
  if (connection < 0 && geteuid() == 0) mount_store(user, &connection, deadline);
  if (connection < 0) return PROTECTFS_UNREACHABLE;
  const enum protectfs_outcome outcome = protectfs_daemon_change_passcode(connection, secret, deadline);
  close(connection);
  return outcome;
}

static const char change_name[] = "protectfs_change";

/// A new passcode that is not that of the login yet.
struct change {
  struct protectfs_secret *secret;
  struct protectfs_settings settings;
  bool is_silent;
};

static void tell_unchanged(pam_handle_t *pam, const struct protectfs_settings *settings) {
  pam_info(
      pam, "The passcode of %s stays what it was; 'protectfs passcode change %s' changes it.", settings->mount_point,
      settings->backing);
}

static void make_change(pam_handle_t *pam, struct change *change, long long deadline) {
  const uid_t user = change->secret->user;
  if (change_passcode(user, change->secret, deadline) == PROTECTFS_DONE)
    pam_syslog(pam, LOG_INFO, "store of user %u: its passcode was changed", user);
  else if (!change->is_silent)
    tell_unchanged(pam, &change->settings);
}

/// The end of the transaction. The change is made where the program has ended it well, in no child of its own, and not
/// where it was made before.
static void end_change(pam_handle_t *pam, void *data, int status) {
  struct change *change = data;
  WITH_STANDARD_DESCRIPTORS;
  if (status == PAM_SUCCESS) make_change(pam, change, get_deadline());
  protectfs_secret_free(change->secret);
  free(change);
}

/// In a login whose passcode had expired: its session shows that the new one counts.
static void make_kept_change(pam_handle_t *pam, long long deadline) {
  const void *data = NULL;
  if (pam_get_data(pam, change_name, &data) != PAM_SUCCESS || !data) return;
  make_change(pam, (struct change *)data, deadline);
  pam_set_data(pam, change_name, NULL, NULL);
}

/// Keeps both passcodes until the program is known to have changed that of the login: pam_unix may fail behind the
/// jumps of its first pass, which libpam takes again in the second (pam.conf(5)), and the new one would be the store's
/// alone. Without the old one, as when root sets another's, nothing can be changed: the next login says so.
EXPORTED int pam_sm_chauthtok(pam_handle_t *pam, int flags, int argc, const char **argv) {
  (void)argc, (void)argv;
  WITH_STANDARD_DESCRIPTORS;
  ENDED_BY(free_account) struct account account = {0};
  const void *old = NULL, *new = NULL;
  if (!(flags & PAM_UPDATE_AUTHTOK)) return PAM_IGNORE;
  if (pam_get_item(pam, PAM_AUTHTOK, &new) != PAM_SUCCESS || !new || !find_account(pam, &account)) return PAM_IGNORE;
  struct change *change = calloc(1, sizeof *change);
  if (!change) return PAM_IGNORE;
  if (protectfs_settings_read(&account.user, &change->settings, get_deadline()) != PROTECTFS_FOUND) {
    free(change);
    return PAM_IGNORE;
  }
  change->is_silent = flags & PAM_SILENT;
  change->secret = protectfs_secret_make();
  if (change->secret && pam_get_item(pam, PAM_OLDAUTHTOK, &old) == PAM_SUCCESS && old &&
      protectfs_secret_take(change->secret->passcode, old) && protectfs_secret_take(change->secret->new_passcode, new)) {
    change->secret->user = account.user.user;
    if (pam_set_data(pam, change_name, change, end_change) == PAM_SUCCESS) return PAM_IGNORE;
  }
  if (!change->is_silent) tell_unchanged(pam, &change->settings);
  protectfs_secret_free(change->secret);
  free(change);
  return PAM_IGNORE;
}

// MARK: Session

/// Has the store mounted, and unlocked with the passcode if there is one. Before pam_systemd, which starts the user's
/// services.
EXPORTED int pam_sm_open_session(pam_handle_t *pam, int flags, int argc, const char **argv) {
  (void)argc, (void)argv;
  WITH_STANDARD_DESCRIPTORS;
  const long long deadline = get_deadline();
  ENDED_BY(free_account) struct account account = {0};
  struct protectfs_settings settings;
  if (geteuid() != 0 || !find_account(pam, &account)) return PAM_IGNORE;
  if (protectfs_settings_read(&account.user, &settings, deadline) != PROTECTFS_FOUND) {
    drop_secret(pam);
    return PAM_IGNORE;
  }
  const uid_t user = account.user.user;
  int connection = -1;
  const enum protectfs_outcome outcome = mount_store(user, &connection, deadline);
  struct protectfs_secret *secret = kept_secret(pam, user);
  if (secret && outcome == PROTECTFS_DONE) {
    tell(pam, flags, unlock(pam, connection, secret, deadline), settings.mount_point);
  } else if (outcome == PROTECTFS_DONE) {
    // By a key, say, or where another process has authenticated.
    if (!(flags & PAM_SILENT))
      pam_info(pam, "%s is locked; 'protectfs unlock %s' unlocks it.", settings.mount_point, settings.mount_point);
  } else if (outcome != PROTECTFS_UNLOCKED && !(flags & PAM_SILENT)) {
    pam_info(
        pam, "%s could not be mounted; 'systemctl status protectfs-user@%u' says why.", settings.mount_point, user);
  }
  if (connection >= 0) close(connection);
  drop_secret(pam);
  make_kept_change(pam, deadline);
  return PAM_IGNORE;
}

/// Nothing: which session is the last one, systemd-logind knows.
EXPORTED int pam_sm_close_session(pam_handle_t *pam, int flags, int argc, const char **argv) {
  (void)pam, (void)flags, (void)argc, (void)argv;
  return PAM_IGNORE;
}
