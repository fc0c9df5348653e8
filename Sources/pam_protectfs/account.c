// Who logs in, as PAM and the password database have it.
#define _GNU_SOURCE
#include "include/pam_protectfs.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

void protectfs_account_free(struct protectfs_account *account) { free(account->storage); }

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
static bool is_change_of_user(const char *service) {
  static const char *const services[] = {"su", "su-l", "sudo", "sudo-i", "doas", "runuser", "runuser-l"};
  for (size_t index = 0; index < sizeof services / sizeof *services; index++)
    if (strcmp(service, services[index]) == 0) return true;
  return false;
}

/// Whether somebody is asked for a passcode of their own by su(1), as by 'protectfs login enable'.
static bool is_own(const char *service, const char *asker, const char *name) {
  return strcmp(service, "su") == 0 && strcmp(asker, name) == 0;
}

/// An item of the transaction that is a text; empty where it is not set, `NULL` where that cannot be told.
static const char *text_item(pam_handle_t *pam, int type) {
  const void *item = NULL;
  if (pam_get_item(pam, type, &item) != PAM_SUCCESS) return NULL;
  return item ? item : "";
}

bool protectfs_account_find(pam_handle_t *pam, struct protectfs_account *account) {
  const char *asker = text_item(pam, PAM_RUSER), *service = text_item(pam, PAM_SERVICE), *name = NULL;
  struct passwd entry;
  if (!asker || !service) return false;
  if (pam_get_user(pam, &name, NULL) != PAM_SUCCESS || !name) return false;
  account->has_session = is_own(service, asker, name);
  if ((*asker || is_change_of_user(service)) && !account->has_session) return false;
  const struct passwd *found = find_entry(name, &entry, &account->storage);
  if (!found || !found->pw_uid || !found->pw_dir || *found->pw_dir != '/') return false;
  account->user = (struct protectfs_user){found->pw_uid, found->pw_gid, found->pw_name, found->pw_dir};
  return true;
}
