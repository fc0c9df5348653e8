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
static bool is_change_of_user(pam_handle_t *pam) {
  static const char *const services[] = {"su", "su-l", "sudo", "sudo-i", "doas", "runuser", "runuser-l"};
  const void *service = NULL;
  if (pam_get_item(pam, PAM_SERVICE, &service) != PAM_SUCCESS || !service) return false;
  for (size_t index = 0; index < sizeof services / sizeof *services; index++)
    if (strcmp(service, services[index]) == 0) return true;
  return false;
}

/// Whether somebody is asked for a passcode of their own by su(1), as by 'protectfs login enable'.
static bool is_own(pam_handle_t *pam, const char *asker, const char *name) {
  const void *service = NULL;
  return pam_get_item(pam, PAM_SERVICE, &service) == PAM_SUCCESS && service && strcmp(service, "su") == 0 &&
         strcmp(asker, name) == 0;
}

bool protectfs_account_find(pam_handle_t *pam, struct protectfs_account *account) {
  const void *item = NULL;
  const char *name = NULL;
  struct passwd entry;
  if (pam_get_item(pam, PAM_RUSER, &item) != PAM_SUCCESS) return false;
  if (pam_get_user(pam, &name, NULL) != PAM_SUCCESS || !name) return false;
  const char *asker = item ? item : "";
  if ((*asker || is_change_of_user(pam)) && !is_own(pam, asker, name)) return false;
  const struct passwd *found = find_entry(name, &entry, &account->storage);
  if (!found || !found->pw_uid || !found->pw_dir || *found->pw_dir != '/') return false;
  account->user = (struct protectfs_user){found->pw_uid, found->pw_gid, found->pw_name, found->pw_dir};
  return true;
}
