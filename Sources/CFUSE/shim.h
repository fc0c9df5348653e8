// <features.h> comes first: _FILE_OFFSET_BITS defined before it makes `struct flock` clash with Glibc's module.
#include <features.h>
#undef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

// From libfuse 3.17 on, a macro with arguments, which Swift does not see.
static inline struct fuse_session *session_new(
    struct fuse_args *arguments, const struct fuse_lowlevel_ops *operations, size_t size, void *data) {
  return fuse_session_new(arguments, operations, size, data);
}
// What the kernel sends: libfuse leaves some of it out.
#include <linux/fuse.h>
