#include "CProtectfsTesting.h"

#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int uses_stand_in;

int protectfs_testing_uses_stand_in(void) { return uses_stand_in; }

// Threads have capabilities, and none can take another's. So this comes before there is a second one.
__attribute__((constructor)) static void choose(void) {
  const char *choice = getenv("PROTECTFS_TESTING");
  uses_stand_in = choice ? strcmp(choice, "stand-in") == 0 : access("/dev/fuse", R_OK | W_OK) != 0;
  if (!uses_stand_in) return;
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct sets[2];
  if (syscall(SYS_capget, &header, sets) < 0) return;
  uint32_t both = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;
  sets[0].effective &= ~both;
  sets[0].permitted &= ~both;
  sets[0].inheritable &= ~both;
  if (syscall(SYS_capset, &header, sets) < 0) perror("capset");
}
