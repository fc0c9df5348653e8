#ifndef CCOUNTING_H
#define CCOUNTING_H
#include <stdint.h>

/// How often memory was allocated so far, by anyone in the process.
int64_t counting_allocations(void);
/// Runs `body` twice in a process of its own, and returns how many system calls the second run made; negative errno if
/// it cannot be traced.
int64_t counting_system_calls(void (*body)(void *), void *context);

#endif
