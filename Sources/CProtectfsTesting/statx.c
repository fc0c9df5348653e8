// Stands before statx(2).
#include "item.h"

#ifdef __GLIBC__
#include <sys/stat.h>
#else
// What musl has of it depends on its version.
#include <linux/stat.h>
#endif

int statx(int directory, const char *restrict path, int flags, unsigned mask, struct statx *restrict status) {
  int result = (int)syscall(SYS_statx, directory, path, flags, mask, status);
  int item = result < 0 || !has_stand_in() ? -1 : find_flagged_item(directory, path, flags);
  if (item < 0) return result;
  uint32_t mode = status->stx_mode;
  long answer = ASK(item, status, &mode, &status->stx_dev_major, &status->stx_dev_minor);
  if (answer == PROTECTFS_TESTING_PASS) return result;
  status->stx_mode = (uint16_t)mode;
  return (int)finish(answer);
}
