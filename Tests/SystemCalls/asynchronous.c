#define _GNU_SOURCE
#include "CSystemCalls.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { most_pieces = 64 };

// By the system calls themselves: libaio is no more than these.
ssize_t calls_submit_writes(int fd, const void *buffer, size_t count, off_t offset, unsigned pieces) {
  if (pieces == 0 || pieces > most_pieces || count % pieces) return -EINVAL;
  aio_context_t context = 0;
  if (syscall(SYS_io_setup, pieces, &context) < 0) return -errno;
  struct iocb requests[most_pieces], *list[most_pieces];
  struct io_event events[most_pieces];
  size_t length = count / pieces;
  for (unsigned i = 0; i < pieces; i++) {
    memset(&requests[i], 0, sizeof requests[i]);
    requests[i].aio_lio_opcode = IOCB_CMD_PWRITE;
    requests[i].aio_fildes = (uint32_t)fd;
    requests[i].aio_buf = (uint64_t)(uintptr_t)((const char *)buffer + i * length);
    requests[i].aio_nbytes = length;
    requests[i].aio_offset = offset + (off_t)(i * length);
    list[i] = &requests[i];
  }
  ssize_t result = 0;
  long submitted = 0;
  while (submitted < (long)pieces) {
    long taken = syscall(SYS_io_submit, context, pieces - submitted, list + submitted);
    if (taken <= 0) {
      result = taken < 0 ? -errno : -EAGAIN;
      break;
    }
    submitted += taken;
  }
  for (long done = 0; done < submitted;) {
    long got = syscall(SYS_io_getevents, context, submitted - done, submitted - done, events, NULL);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      result = -errno;
      break;
    }
    for (long i = 0; i < got && result >= 0; i++) result = events[i].res < 0 ? events[i].res : result + events[i].res;
    done += got;
  }
  syscall(SYS_io_destroy, context);
  return result;
}
