// libFuzzer as a library (compiler-rt, lib/fuzzer/FuzzerInterface.h has no declaration of it to include).
#ifndef PROTECTFS_CLIBFUZZER_H
#define PROTECTFS_CLIBFUZZER_H

#include <stddef.h>
#include <stdint.h>

/// Calls `test` with made-up bytes until one of them ends the process, or the options in the arguments say to stop.
int LLVMFuzzerRunDriver(int *argc, char ***argv, int (*test)(const uint8_t *bytes, size_t count));

#endif
