// <features.h> comes first: _FILE_OFFSET_BITS defined before it makes `struct flock` clash with Glibc's module.
#include <features.h>
#undef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>
// What the kernel sends: libfuse leaves some of it out.
#include <linux/fuse.h>
