// What every wrapper of a system call does.
#ifndef PROTECTFS_CALLS_H
#define PROTECTFS_CALLS_H

#include "CProtectfsIO.h"

#include <errno.h>

/// The calling thread must hold no lock under which no system call is made.
#ifdef DEBUG
#define REQUIRE_CALLS_ALLOWED() linux_require_calls_allowed(__func__, -1)
#else
#define REQUIRE_CALLS_ALLOWED() ((void)0)
#endif

/// What a system call returns, or -errno. It is made again as long as signals interrupt it.
#define RESULT(call)                           \
  __extension__({                              \
    REQUIRE_CALLS_ALLOWED();                   \
    __typeof__(call) result_;                  \
    do {                                       \
      result_ = (call);                        \
    } while (result_ < 0 && errno == EINTR);   \
    result_ < 0 ? -(__typeof__(result_))errno : result_; \
  })

#endif
