#define _GNU_SOURCE
#include "CSystemCalls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Needles are told apart by their first two bytes: a bit for each pair that some needle starts with, so that most of
// the memory is passed at a step a byte.
struct needles {
  const uint8_t *bytes;
  size_t length, count;
  uint8_t starts[8192];
};

static size_t search(const struct needles *needles, const uint8_t *memory, size_t length, size_t *first, size_t *where) {
  size_t found = 0;
  for (size_t at = 0; at + needles->length <= length; at++) {
    unsigned pair = (unsigned)memory[at] << 8 | memory[at + 1];
    if (!(needles->starts[pair >> 3] & 1u << (pair & 7))) continue;
    for (size_t index = 0; index < needles->count; index++) {
      if (memcmp(memory + at, needles->bytes + index * needles->length, needles->length)) continue;
      if (found++ > 0) continue;
      *first = index;
      *where = at;
    }
  }
  return found;
}

ssize_t calls_search_memory(int pid, const uint8_t *bytes, size_t needle_length, size_t needle_count,
                            struct calls_found *first, uint64_t *searched) {
  struct needles needles = {.bytes = bytes, .length = needle_length, .count = needle_count};
  for (size_t index = 0; index < needle_count; index++) {
    unsigned pair = (unsigned)bytes[index * needle_length] << 8 | bytes[index * needle_length + 1];
    needles.starts[pair >> 3] |= (uint8_t)(1u << (pair & 7));
  }
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/maps", pid);
  FILE *maps = fopen(path, "re");
  if (!maps) return -errno;
  snprintf(path, sizeof path, "/proc/%d/mem", pid);
  int memory = open(path, O_RDONLY | O_CLOEXEC);
  if (memory < 0) {
    int error = errno;
    fclose(maps);
    return -error;
  }
  enum { size = 1 << 20 };
  uint8_t *chunk = malloc(size);
  size_t found = 0;
  *searched = 0;
  char line[512];
  while (fgets(line, sizeof line, maps)) {
    uint64_t start, end;
    char permissions[8];
    if (sscanf(line, "%lx-%lx %7s", &start, &end, permissions) != 3 || permissions[0] != 'r') continue;
    if (strstr(line, "[vvar") || strstr(line, "[vsyscall]")) continue;
    // Chunks overlap by a needle less one byte, so that none is found twice and none is missed.
    for (uint64_t at = start; at < end;) {
      size_t wanted = end - at < size ? (size_t)(end - at) : size;
      ssize_t got = pread(memory, chunk, wanted, (off_t)at);
      if (got <= 0) {
        at = (at & ~4095ul) + 4096;
        continue;
      }
      size_t before = found;
      size_t which = 0, where = 0;
      found += search(&needles, chunk, (size_t)got, &which, &where);
      if (before == 0 && found > 0) {
        first->needle = which;
        first->address = at + where;
        snprintf(first->mapping, sizeof first->mapping, "%.255s", line);
      }
      *searched += (uint64_t)got;
      if (at + (uint64_t)got >= end) break;
      at += (uint64_t)got < needle_length ? (uint64_t)got : (uint64_t)got - needle_length + 1;
    }
  }
  free(chunk);
  close(memory);
  fclose(maps);
  return (ssize_t)found;
}
