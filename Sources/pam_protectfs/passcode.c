// A password that is changed: the store's passcode follows when the change has been made.
#define _GNU_SOURCE
#include "include/pam_protectfs.h"

#include <security/pam_ext.h>
#include <stdlib.h>
#include <syslog.h>
#include <unistd.h>

/// Has the store take the new passcode. Where it is not mounted, it is mounted for that, and unmounted after a minute
/// unless there is a session.
static enum protectfs_outcome change_passcode(uid_t user, struct protectfs_secret *secret, long long deadline) {
  int connection = protectfs_daemon_connect(user);
  if (connection < 0 && geteuid() == 0) protectfs_mount(user, &connection, deadline);
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
  PROTECTFS_WITH_STANDARD_DESCRIPTORS;
  if (status == PAM_SUCCESS) make_change(pam, change, protectfs_deadline());
  protectfs_secret_free(change->secret);
  free(change);
}

void protectfs_passcode_finish_change(pam_handle_t *pam, long long deadline) {
  const void *data = NULL;
  if (pam_get_data(pam, change_name, &data) != PAM_SUCCESS || !data) return;
  make_change(pam, (struct change *)data, deadline);
  pam_set_data(pam, change_name, NULL, NULL);
}

/// Keeps both passcodes until the program is known to have changed that of the login: pam_unix may fail behind the
/// jumps of its first pass, which libpam takes again in the second (pam.conf(5)), and the new one would be the store's
/// alone. Without the old one, as when root sets another's, nothing can be changed: the next login says so.
PROTECTFS_EXPORTED int pam_sm_chauthtok(pam_handle_t *pam, int flags, int argc, const char **argv) {
  (void)argc, (void)argv;
  PROTECTFS_WITH_STANDARD_DESCRIPTORS;
  PROTECTFS_ENDED_BY(protectfs_account_free) struct protectfs_account account = {0};
  const void *old = NULL, *new = NULL;
  if (!(flags & PAM_UPDATE_AUTHTOK)) return PAM_IGNORE;
  if (pam_get_item(pam, PAM_AUTHTOK, &new) != PAM_SUCCESS || !new) return PAM_IGNORE;
  if (!protectfs_account_find(pam, &account)) return PAM_IGNORE;
  struct change *change = calloc(1, sizeof *change);
  if (!change) return PAM_IGNORE;
  if (protectfs_settings_read(&account.user, &change->settings, protectfs_deadline()) != PROTECTFS_FOUND) {
    free(change);
    return PAM_IGNORE;
  }
  change->is_silent = flags & PAM_SILENT;
  change->secret = protectfs_secret_make();
  if (change->secret && pam_get_item(pam, PAM_OLDAUTHTOK, &old) == PAM_SUCCESS && old &&
      protectfs_secret_take(change->secret->passcode, old) &&
      protectfs_secret_take(change->secret->new_passcode, new)) {
    change->secret->user = account.user.user;
    if (pam_set_data(pam, change_name, change, end_change) == PAM_SUCCESS) return PAM_IGNORE;
  }
  if (!change->is_silent) tell_unchanged(pam, &change->settings);
  protectfs_secret_free(change->secret);
  free(change);
  return PAM_IGNORE;
}
