// What libpam calls: the passcode of a login unlocks the user's store. Nothing here refuses anybody: every function
// returns PAM_IGNORE, and all that it waits for has one deadline.
#define _GNU_SOURCE
#include "include/pam_protectfs.h"

#include <security/pam_ext.h>
#include <syslog.h>
#include <unistd.h>

static const char data_name[] = "protectfs_secret";

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
          "%s stays locked: its passcode is not the login passcode.\n"
          "Unlock it with its own, 'protectfs unlock %s'; then 'protectfs passcode change %s' puts that right.",
          mount_point, mount_point, mount_point);
      return;
    case PROTECTFS_REFUSED:
    case PROTECTFS_UNREACHABLE:
      pam_info(
          pam, "%s could not be unlocked; 'protectfs unlock %s' unlocks it, or says why.", mount_point, mount_point);
  }
}

/// Unlocks for a screen locker, where no session follows: what is mounted, and nothing else.
static void unlock_for_locker(pam_handle_t *pam, int flags) {
  const long long deadline = protectfs_deadline();
  PROTECTFS_ENDED_BY(protectfs_account_free) struct protectfs_account account = {0};
  struct protectfs_settings settings;
  if (!protectfs_account_find(pam, &account)) return;
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
PROTECTFS_EXPORTED int pam_sm_authenticate(pam_handle_t *pam, int flags, int argc, const char **argv) {
  (void)argc, (void)argv;
  PROTECTFS_WITH_STANDARD_DESCRIPTORS;
  PROTECTFS_ENDED_BY(protectfs_account_free) struct protectfs_account account = {0};
  struct protectfs_settings settings;
  const void *passcode = NULL;
  // Of an earlier authentication in the same transaction.
  drop_secret(pam);
  if (pam_get_item(pam, PAM_AUTHTOK, &passcode) != PAM_SUCCESS || !passcode) return PAM_IGNORE;
  if (!protectfs_account_find(pam, &account)) return PAM_IGNORE;
  // Of most users there is no store. A home directory that does not say may do so when the session is opened.
  if (protectfs_settings_read(&account.user, &settings, protectfs_deadline()) == PROTECTFS_NONE) return PAM_IGNORE;
  keep_secret(pam, account.user.user, passcode);
  // Without root's rights nobody opens a session: this is a screen locker of the user's.
  if (geteuid() != 0) unlock_for_locker(pam, flags);
  return PAM_IGNORE;
}

/// A locker with root's rights refreshes credentials; a login establishes them, and its session follows.
PROTECTFS_EXPORTED int pam_sm_setcred(pam_handle_t *pam, int flags, int argc, const char **argv) {
  (void)argc, (void)argv;
  PROTECTFS_WITH_STANDARD_DESCRIPTORS;
  if (flags & (PAM_REFRESH_CRED | PAM_REINITIALIZE_CRED)) unlock_for_locker(pam, flags);
  return PAM_IGNORE;
}

// MARK: Session

enum protectfs_outcome protectfs_mount(uid_t user, int *connection, long long deadline) {
  enum protectfs_outcome outcome = PROTECTFS_UNREACHABLE;
  // Several times, as long as it fails at once: the end of the last session, or an unmount, may have ended it
  // meanwhile, and systemd refuses to start what is bound to a daemon that has just ended.
  long long start = protectfs_now();
  for (int attempt = 0; attempt < 4 && outcome == PROTECTFS_UNREACHABLE; attempt++) {
    if (attempt > 1 && protectfs_now() - start > 1000) break;
    if (attempt > 0) usleep(250000);
    start = protectfs_now();
    if (*connection >= 0) close(*connection);
    *connection = -1;
    if (!protectfs_unit_start(user, deadline)) continue;
    *connection = protectfs_daemon_connect(user);
    if (*connection >= 0) outcome = protectfs_daemon_state(*connection, deadline);
  }
  return outcome;
}

/// Has the store mounted, and unlocked with the passcode if there is one. Before pam_systemd, which starts the user's
/// services.
PROTECTFS_EXPORTED int pam_sm_open_session(pam_handle_t *pam, int flags, int argc, const char **argv) {
  (void)argc, (void)argv;
  PROTECTFS_WITH_STANDARD_DESCRIPTORS;
  const long long deadline = protectfs_deadline();
  PROTECTFS_ENDED_BY(protectfs_account_free) struct protectfs_account account = {0};
  struct protectfs_settings settings;
  if (geteuid() != 0 || !protectfs_account_find(pam, &account)) return PAM_IGNORE;
  if (protectfs_settings_read(&account.user, &settings, deadline) != PROTECTFS_FOUND) {
    drop_secret(pam);
    return PAM_IGNORE;
  }
  const uid_t user = account.user.user;
  int connection = -1;
  protectfs_unit_expect(user, account.has_session);
  const enum protectfs_outcome outcome = protectfs_mount(user, &connection, deadline);
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
  protectfs_passcode_finish_change(pam, deadline);
  return PAM_IGNORE;
}

/// Nothing: which session is the last one, systemd-logind knows.
PROTECTFS_EXPORTED int pam_sm_close_session(pam_handle_t *pam, int flags, int argc, const char **argv) {
  (void)pam, (void)flags, (void)argc, (void)argv;
  return PAM_IGNORE;
}
