#include "CProtectfsIO.h"

#ifdef DEBUG

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

// What the calling thread holds. In the executable's own thread-local storage: nothing is allocated for it, so it may
// be used where malloc(3) may not.
static __thread __attribute__((tls_model("initial-exec"))) struct {
  /// The ranks that are held, a bit each; of them those under which no system call is made, and no lock is taken.
  uint64_t held, without_calls, without_locks;
  uint16_t counts[64];
  const char *names[64];
} thread_locks;

static void fail(const char *what, const char *verb, uint64_t under) {
  char message[256];
  const char *name = thread_locks.names[63 - __builtin_clzll(under)];
  int count = snprintf(message, sizeof message, "Lock order: %s %s under '%s'\n", what, verb, name);
  ssize_t written = write(STDERR_FILENO, message, (size_t)count);
  (void)written;
  syslog(LOG_ERR, "%s", message);
  abort();
}

void linux_will_take_lock(unsigned rank, const char *name, int allows, int is_one_of_several) {
  uint64_t bit = 1ull << rank;
  uint64_t above = thread_locks.held & ~(bit - 1) & ~(is_one_of_several ? bit : 0);
  if (thread_locks.without_locks & ~bit) above |= thread_locks.without_locks;
  if (above) {
    char quoted[96];
    snprintf(quoted, sizeof quoted, "'%s'", name);
    fail(quoted, "is taken", above);
  }
  thread_locks.names[rank] = name;
  thread_locks.counts[rank]++;
  thread_locks.held |= bit;
  if (allows < LINUX_LOCK_ALLOWS_CALLS) thread_locks.without_calls |= bit;
  if (allows < LINUX_LOCK_ALLOWS_LOCKS) thread_locks.without_locks |= bit;
}

void linux_has_released_lock(unsigned rank) {
  uint64_t bit = 1ull << rank;
  if (--thread_locks.counts[rank] > 0) return;
  thread_locks.held &= ~bit;
  thread_locks.without_calls &= ~bit;
  thread_locks.without_locks &= ~bit;
}

void linux_require_calls_allowed(const char *call, int except) {
  uint64_t under = thread_locks.without_calls & ~(except < 0 ? 0 : 1ull << except);
  if (under) fail(call, "is called", under);
}

void linux_require_no_locks(const char *act) {
  if (thread_locks.held) fail(act, "is made", thread_locks.held);
}

#endif
