#define _GNU_SOURCE
#include "include/pam_protectfs.h"

#include <string.h>
#include <sys/mman.h>

struct protectfs_secret *protectfs_secret_make(void) {
  const size_t size = sizeof(struct protectfs_secret);
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return NULL;
  // What cannot be locked could be written to the swap, and a copy in a child is not locked: then the store stays
  // locked.
  if (mlock(memory, size) < 0 || madvise(memory, size, MADV_DONTDUMP) < 0 ||
      madvise(memory, size, MADV_WIPEONFORK) < 0) {
    munmap(memory, size);
    return NULL;
  }
  return memory;
}

void protectfs_secret_free(struct protectfs_secret *secret) {
  if (!secret) return;
  explicit_bzero(secret, sizeof *secret);
  munmap(secret, sizeof *secret);
}

/// The length of the UTF-8 sequence at the start of a string, by RFC 3629; 0 for none.
static size_t sequence_length(const unsigned char *s) {
  if (s[0] < 0x80) return 1;
  const size_t length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
  if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
  for (size_t i = 1; i < length; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  // Longer than need be, a half of a surrogate pair, beyond U+10FFFF.
  if (s[0] == 0xe0 && s[1] < 0xa0) return 0;
  if (s[0] == 0xed && s[1] > 0x9f) return 0;
  if (s[0] == 0xf0 && s[1] < 0x90) return 0;
  if (s[0] == 0xf4 && s[1] > 0x8f) return 0;
  return length;
}

bool protectfs_secret_take(char *place, const char *passcode) {
  if (!passcode || !*passcode) return false;
  const size_t length = strnlen(passcode, PROTECTFS_LONGEST_PASSCODE + 1);
  if (length > PROTECTFS_LONGEST_PASSCODE) return false;
  for (size_t i = 0; i < length;) {
    const size_t sequence = sequence_length((const unsigned char *)passcode + i);
    if (!sequence) return false;
    i += sequence;
  }
  memcpy(place, passcode, length + 1);
  return true;
}

void protectfs_make_printable(char *text) {
  char *end = text;
  for (const char *c = text; *c;) {
    const unsigned char *bytes = (const unsigned char *)c;
    const size_t length = sequence_length(bytes);
    // U+0080 to U+009F are controls as well; U+009B introduces what ESC [ does.
    const bool is_control =
        bytes[0] < 0x20 || bytes[0] == 0x7f || (length == 2 && bytes[0] == 0xc2 && bytes[1] < 0xa0);
    if (!length || is_control) {
      *end++ = '?';
    } else {
      memmove(end, c, length);
      end += length;
    }
    c += length ? length : 1;
  }
  *end = 0;
}
