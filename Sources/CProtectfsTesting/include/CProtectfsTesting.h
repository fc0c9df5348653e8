// What the stand-in for a mount needs of the process: no capabilities that override modes, and a say in the calls of
// the C library that a mount would answer.
#ifndef PROTECTFS_CTESTING_H
#define PROTECTFS_CTESTING_H

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

/// Whether the process is to use the stand-in: there is no /dev/fuse that it may use, or PROTECTFS_TESTING says so
/// (`stand-in`, or `mount` for the other). Mode bits count for such a process, also if it is root's.
int protectfs_testing_uses_stand_in(void);

/// The answer to a call that is to be made as if there were no stand-in.
#define PROTECTFS_TESTING_PASS LONG_MIN

/// What answers calls on what is in a stand-in. Items are descriptors opened with O_PATH, which stay the caller's. An
/// answer is the result of the call, an error number times -1, or PROTECTFS_TESTING_PASS.
struct protectfs_testing_calls {
  /// An existing item is to be opened.
  long (*open)(int item);
  /// A file is to be created in a directory.
  long (*create)(int directory);
  /// A file was created.
  long (*created)(int item);
  /// An open file is to be read or written.
  long (*transfer)(int item);
  /// Corrects what stat(2) has found.
  long (*status)(int item, uint32_t *mode, uint32_t *device_major, uint32_t *device_minor);
  long (*access)(int item, int mode);
  long (*change_mode)(int item, uint32_t mode);
  long (*attribute)(int item, const char *name, void *value, size_t size);
  long (*set_attribute)(int item, const char *name, const void *value, size_t size, int flags);
  long (*remove_attribute)(int item, const char *name);
  long (*attribute_names)(int item, char *list, size_t size);
  /// A name of an item that is no directory is to be removed.
  long (*unlink)(int item);
  /// An item gets a name in a directory; `replaced` is what has the name, or -1. The flags are those of renameat2(2).
  long (*move)(int item, int directory, int replaced, unsigned flags);
};

/// Sets what answers, once.
void protectfs_testing_answer_with(const struct protectfs_testing_calls *calls);

/// There is one more stand-in, or one less.
void protectfs_testing_add_stand_in(void);
void protectfs_testing_remove_stand_in(void);

/// What this thread does until it has left again is no one's but the stand-in's own.
void protectfs_testing_enter(void);
void protectfs_testing_leave(void);

/// How many calls of this thread were answered.
unsigned long protectfs_testing_answered(void);

#endif
