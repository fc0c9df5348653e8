// What libpam calls: the passcode of a login unlocks the user's store. Nothing here refuses anybody: every function
// returns PAM_IGNORE or PAM_SUCCESS, and all that it waits for has a deadline.
#define _GNU_SOURCE
#include "include/pam_protectfs.h"

#include <pwd.h>
#include <security/pam_ext.h>
#include <security/pam_modules.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static const char data_name[] = "protectfs_secret";

struct account {
  struct protectfs_user user;
  char storage[4096];
};

/// Who logs in. Not root, who has no store of this kind; nor whom somebody becomes who is in already, which is what
/// PAM_RUSER says: su(1), sudo(8) and their like set it, logins and screen lockers do not.
static bool find_account(pam_handle_t *pam, struct account *account) {
  const void *asker = NULL;
  const char *name = NULL;
  struct passwd entry, *found = NULL;
  if (pam_get_item(pam, PAM_RUSER, &asker) != PAM_SUCCESS || (asker && *(const char *)asker)) return false;
  if (pam_get_user(pam, &name, NULL) != PAM_SUCCESS || !name) return false;
  if (getpwnam_r(name, &entry, account->storage, sizeof account->storage, &found) != 0 || !found) return false;
  if (!found->pw_uid || !found->pw_dir || *found->pw_dir != '/') return false;
  account->user = (struct protectfs_user){found->pw_uid, found->pw_gid, found->pw_name, found->pw_dir};
  return true;
}

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

/// Tries the passcode, which is then wiped: it is tried once.
static enum protectfs_outcome unlock(pam_handle_t *pam, uid_t user, struct protectfs_secret *secret) {
  const enum protectfs_outcome outcome = protectfs_daemon_unlock(user, secret);
  pam_set_data(pam, data_name, NULL, NULL);
  pam_syslog(
      pam, outcome == PROTECTFS_DONE ? LOG_INFO : LOG_NOTICE, "store of user %u: %s", user,
      outcome == PROTECTFS_DONE             ? "unlocked"
      : outcome == PROTECTFS_WRONG_PASSCODE ? "stays locked, its passcode is another"
      : outcome == PROTECTFS_REFUSED        ? "stays locked, its daemon refused"
                                            : "stays locked, its daemon was not reached");
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
      pam_info(pam, "%s could not be unlocked; 'protectfs unlock %s' says why.", mount_point, mount_point);
  }
}

/// Unlocks for a screen locker, where no session follows: what is mounted, and nothing else.
static void unlock_for_locker(pam_handle_t *pam, int flags) {
  struct account account;
  struct protectfs_settings settings;
  if (!find_account(pam, &account)) return;
  struct protectfs_secret *secret = kept_secret(pam, account.user.user);
  if (!secret || !protectfs_settings_read(&account.user, &settings)) return;
  tell(pam, flags, unlock(pam, account.user.user, secret), settings.mount_point);
}

// MARK: Authentication

/// Keeps the passcode that the modules before it have accepted: the stack does not come here otherwise.
EXPORTED int pam_sm_authenticate(pam_handle_t *pam, int flags, int argc, const char **argv) {
  (void)argc, (void)argv;
  struct account account;
  const void *passcode = NULL;
  // Of an earlier authentication in the same transaction.
  pam_set_data(pam, data_name, NULL, NULL);
  if (pam_get_item(pam, PAM_AUTHTOK, &passcode) != PAM_SUCCESS || !passcode) return PAM_IGNORE;
  if (!find_account(pam, &account)) return PAM_IGNORE;
  struct protectfs_secret *secret = protectfs_secret_make();
  if (!secret) return PAM_IGNORE;
  secret->user = account.user.user;
  if (!protectfs_secret_take(secret->passcode, passcode) ||
      pam_set_data(pam, data_name, secret, free_data) != PAM_SUCCESS) {
    protectfs_secret_free(secret);
    return PAM_IGNORE;
  }
  // Without root's rights nobody opens a session: this is a screen locker of the user's.
  if (geteuid() != 0) unlock_for_locker(pam, flags);
  return PAM_IGNORE;
}

/// A locker with root's rights refreshes credentials; a login establishes them, and its session follows.
EXPORTED int pam_sm_setcred(pam_handle_t *pam, int flags, int argc, const char **argv) {
  (void)argc, (void)argv;
  if (flags & (PAM_REFRESH_CRED | PAM_REINITIALIZE_CRED)) unlock_for_locker(pam, flags);
  return PAM_IGNORE;
}

// MARK: Session

/// Has the store mounted, and unlocked with the passcode if there is one. Before pam_systemd, which starts the user's
/// services.
EXPORTED int pam_sm_open_session(pam_handle_t *pam, int flags, int argc, const char **argv) {
  (void)argc, (void)argv;
  struct account account;
  struct protectfs_settings settings;
  if (geteuid() != 0 || !find_account(pam, &account)) return PAM_IGNORE;
  const uid_t user = account.user.user;
  if (!protectfs_settings_read(&account.user, &settings)) {
    pam_set_data(pam, data_name, NULL, NULL);
    return PAM_IGNORE;
  }
  enum protectfs_outcome outcome = PROTECTFS_UNREACHABLE;
  bool is_started = protectfs_unit_start(user);
  if (is_started) outcome = protectfs_daemon_state(user);
  // One that the end of the last session was just about to end.
  if (is_started && outcome == PROTECTFS_UNREACHABLE) {
    usleep(500000);
    is_started = protectfs_unit_start(user);
    if (is_started) outcome = protectfs_daemon_state(user);
  }
  struct protectfs_secret *secret = kept_secret(pam, user);
  if (secret && is_started && outcome == PROTECTFS_DONE) {
    tell(pam, flags, unlock(pam, user, secret), settings.mount_point);
  } else if (outcome == PROTECTFS_DONE) {
    // By a key, say, or where another process has authenticated.
    if (!(flags & PAM_SILENT))
      pam_info(pam, "%s is locked; 'protectfs unlock %s' unlocks it.", settings.mount_point, settings.mount_point);
  } else if (outcome != PROTECTFS_UNLOCKED && !(flags & PAM_SILENT)) {
    pam_info(
        pam, "%s could not be mounted; 'systemctl status protectfs-user@%u' says why.", settings.mount_point, user);
  }
  pam_set_data(pam, data_name, NULL, NULL);
  return PAM_IGNORE;
}

/// Nothing: which session is the last one, systemd-logind knows.
EXPORTED int pam_sm_close_session(pam_handle_t *pam, int flags, int argc, const char **argv) {
  (void)pam, (void)flags, (void)argc, (void)argv;
  return PAM_IGNORE;
}

// MARK: Passcode

/// After pam_unix has the new passcode, gives it to the store too. Without the old one, as when root sets another's,
/// that cannot be: the next login says so.
EXPORTED int pam_sm_chauthtok(pam_handle_t *pam, int flags, int argc, const char **argv) {
  (void)argc, (void)argv;
  struct account account;
  struct protectfs_settings settings;
  const void *old = NULL, *new = NULL;
  if (!(flags & PAM_UPDATE_AUTHTOK)) return PAM_IGNORE;
  if (pam_get_item(pam, PAM_AUTHTOK, &new) != PAM_SUCCESS || !new || !find_account(pam, &account)) return PAM_IGNORE;
  if (!protectfs_settings_read(&account.user, &settings)) return PAM_IGNORE;
  enum protectfs_outcome outcome = PROTECTFS_REFUSED;
  struct protectfs_secret *secret = protectfs_secret_make();
  const bool knows_old = pam_get_item(pam, PAM_OLDAUTHTOK, &old) == PAM_SUCCESS && old;
  if (secret && knows_old && protectfs_secret_take(secret->passcode, old) &&
      protectfs_secret_take(secret->new_passcode, new))
    outcome = protectfs_daemon_change_passcode(account.user.user, secret);
  protectfs_secret_free(secret);
  if (outcome == PROTECTFS_DONE) {
    pam_syslog(pam, LOG_INFO, "store of user %u: its passcode was changed", account.user.user);
  } else if (!(flags & PAM_SILENT)) {
    pam_info(
        pam, "The passcode of %s stays what it was; 'protectfs passcode change %s' changes it.", settings.mount_point,
        settings.mount_point);
  }
  return PAM_IGNORE;
}
