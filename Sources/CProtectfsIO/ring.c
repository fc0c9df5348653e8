#define _GNU_SOURCE
#include "CProtectfsIO.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// What <linux/fuse.h> of Linux 6.1 does not have yet: the command in an entry of 128 bytes.
struct fuse_ring_command {
  uint64_t flags, commit_id;
  uint16_t queue;
  uint8_t padding[6];
};

// The same: a thread that waits is not counted as one that waits for a disk, which would make an idle system look busy
// (io_uring_enter(2), since Linux 6.15).
enum { FEATURE_NO_IOWAIT = 1u << 17, ENTER_NO_IOWAIT = 1u << 7 };

// The same: the memory of the rings is the process's own, and its addresses are the last field of the offsets
// (io_uring_setup(2), since Linux 6.5).
enum { SETUP_NO_MMAP = 1u << 14 };

static void set_address(void *offsets, size_t size, const void *address) {
  uint64_t value = (uintptr_t)address;
  memcpy((char *)offsets + size - sizeof value, &value, sizeof value);
}

static size_t whole_pages(size_t size) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  return (size + page - 1) / page * page;
}

static int setup(unsigned entries, struct io_uring_params *parameters) {
  return (int)syscall(SYS_io_uring_setup, entries, parameters);
}

static int configure(int ring, unsigned operation, void *argument, unsigned count) {
  return syscall(SYS_io_uring_register, ring, operation, argument, count) < 0 ? -errno : 0;
}

// Only the commands of FUSE, on the one file that the ring has. No other operation, and no change of this.
static int restrict_to_commands(int ring) {
  struct io_uring_restriction restrictions[] = {
      {.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_URING_CMD},
      {.opcode = IORING_RESTRICTION_SQE_FLAGS_REQUIRED, .sqe_flags = IOSQE_FIXED_FILE},
      {.opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED, .sqe_flags = IOSQE_FIXED_FILE},
  };
  return configure(ring, IORING_REGISTER_RESTRICTIONS, restrictions, sizeof restrictions / sizeof *restrictions);
}

int linux_ring_open(struct linux_ring *ring, unsigned entries, int device) {
  // Only the thread that enables the ring submits, and only there does the kernel write into the buffers of its
  // entries: while that thread asks for completions.
  struct io_uring_params parameters = {
      .flags = IORING_SETUP_SQE128 | IORING_SETUP_CQSIZE | IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER |
               IORING_SETUP_DEFER_TASKRUN | SETUP_NO_MMAP,
      .cq_entries = 2 * entries,
  };
  // A mapping of the ring itself would keep it for as long as the process has a thread. A request that a killed thread
  // has not taken is ended with the ring alone, and another thread may wait for that request within the kernel.
  // The kernel rounds both numbers up to powers of two, and takes what it needs of the memory; the head is a few cache
  // lines.
  size_t head = 1024, submissions = 2 * (size_t)entries, completions = 2 * submissions;
  memset(ring, 0, sizeof *ring);
  ring->descriptor = -1;
  ring->rings_size =
      whole_pages(head + completions * sizeof(struct io_uring_cqe) + submissions * sizeof(unsigned));
  ring->entries_size = whole_pages(submissions * 2 * sizeof(struct io_uring_sqe));
  int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
  ring->rings = mmap(NULL, ring->rings_size, protection, flags, -1, 0);
  ring->entries = mmap(NULL, ring->entries_size, protection, flags, -1, 0);
  int error = ring->rings == MAP_FAILED || ring->entries == MAP_FAILED ? -errno : 0;
  if (error == 0) {
    set_address(&parameters.cq_off, sizeof parameters.cq_off, ring->rings);
    set_address(&parameters.sq_off, sizeof parameters.sq_off, ring->entries);
    ring->descriptor = setup(entries, &parameters);
    if (ring->descriptor < 0) error = -errno;
  }
  if (error == 0) error = configure(ring->descriptor, IORING_REGISTER_FILES, &device, 1);
  if (error == 0) error = restrict_to_commands(ring->descriptor);
  if (error != 0) {
    linux_ring_close(ring);
    return error;
  }
  char *base = ring->rings;
  ring->enter_flags = parameters.features & FEATURE_NO_IOWAIT ? ENTER_NO_IOWAIT : 0;
  ring->submission_tail = (unsigned *)(base + parameters.sq_off.tail);
  ring->submission_mask = parameters.sq_entries - 1;
  ring->completion_head = (unsigned *)(base + parameters.cq_off.head);
  ring->completion_tail = (unsigned *)(base + parameters.cq_off.tail);
  ring->completion_mask = parameters.cq_entries - 1;
  ring->completions = base + parameters.cq_off.cqes;
  unsigned *array = (unsigned *)(base + parameters.sq_off.array);
  for (unsigned index = 0; index < parameters.sq_entries; index++) array[index] = index;
  return 0;
}

void linux_ring_close(struct linux_ring *ring) {
  if (ring->rings != NULL && ring->rings != MAP_FAILED) munmap(ring->rings, ring->rings_size);
  if (ring->entries != NULL && ring->entries != MAP_FAILED) munmap(ring->entries, ring->entries_size);
  ring->rings = ring->entries = NULL;
  if (ring->descriptor >= 0) close(ring->descriptor);
  ring->descriptor = -1;
}

int linux_ring_signal(struct linux_ring *ring, int event) {
  return configure(ring->descriptor, IORING_REGISTER_EVENTFD, &event, 1);
}

int linux_ring_enable(struct linux_ring *ring) {
  return configure(ring->descriptor, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}

int linux_ring_enter(struct linux_ring *ring, unsigned awaited, int gathers) {
  unsigned flags = ring->enter_flags | (gathers ? IORING_ENTER_GETEVENTS : 0);
  long taken = syscall(SYS_io_uring_enter, ring->descriptor, ring->added, awaited, flags, NULL, 0);
  if (taken < 0) return -errno;
  ring->added -= (unsigned)taken;
  return 0;
}

int linux_ring_add(
    struct linux_ring *ring, int command, unsigned queue, uint64_t commit_id, const struct iovec *buffers,
    uint64_t user_data) {
  // Only this thread changes the tail. The entries that were added are submitted first if there is no room for another.
  if (ring->added > ring->submission_mask && linux_ring_enter(ring, 0, 0) < 0) return -EAGAIN;
  unsigned tail = *ring->submission_tail;
  struct io_uring_sqe *entry =
      (struct io_uring_sqe *)((char *)ring->entries + (tail & ring->submission_mask) * 2 * sizeof *entry);
  memset(entry, 0, 2 * sizeof *entry);
  entry->opcode = IORING_OP_URING_CMD;
  entry->flags = IOSQE_FIXED_FILE;
  entry->cmd_op = (unsigned)command;
  entry->user_data = user_data;
  if (buffers != NULL) {
    entry->addr = (uintptr_t)buffers;
    entry->len = 2;
  }
  struct fuse_ring_command request = {.commit_id = commit_id, .queue = (uint16_t)queue};
  memcpy(entry->cmd, &request, sizeof request);
  atomic_store_explicit((_Atomic unsigned *)ring->submission_tail, tail + 1, memory_order_release);
  ring->added++;
  return 0;
}

int linux_ring_take(struct linux_ring *ring, uint64_t *user_data, int *result) {
  unsigned head = *ring->completion_head;
  if (head == atomic_load_explicit((_Atomic unsigned *)ring->completion_tail, memory_order_acquire)) return 0;
  const struct io_uring_cqe *completion =
      (const struct io_uring_cqe *)ring->completions + (head & ring->completion_mask);
  *user_data = completion->user_data;
  *result = completion->res;
  atomic_store_explicit((_Atomic unsigned *)ring->completion_head, head + 1, memory_order_release);
  return 1;
}

void *linux_map_shared(size_t size) {
  void *start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return NULL;
  madvise(start, size, MADV_DONTDUMP);
  return start;
}

void *linux_map_again(void *start, size_t size) {
  void *other = mremap(start, 0, size, MREMAP_MAYMOVE);
  if (other == MAP_FAILED) return NULL;
  madvise(other, size, MADV_DONTDUMP);
  return other;
}

int linux_move_mapping(void *from, void *to, size_t size) {
  return mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED ? -errno : 0;
}

void linux_free_shared(void *start, size_t size) { madvise(start, size, MADV_REMOVE); }

void linux_unmap(void *start, size_t size) { munmap(start, size); }

int linux_bind_thread(unsigned processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (processor >= CPU_SETSIZE) return -EINVAL;
  CPU_SET(processor, &set);
  return sched_setaffinity(0, sizeof set, &set) < 0 ? -errno : 0;
}

int linux_unbind_thread(void) {
  cpu_set_t set;
  if (sched_getaffinity(getpid(), sizeof set, &set) < 0) return -errno;
  return sched_setaffinity(0, sizeof set, &set) < 0 ? -errno : 0;
}

int linux_write_on_processor(unsigned processor, int file, const void *bytes, size_t count) {
  // What sched_getaffinity(2) returns leaves out processors that are offline, so it is not set again.
  cpu_set_t now;
  int isThere = sched_getaffinity(0, sizeof now, &now) == 0 && CPU_COUNT(&now) == 1 && CPU_ISSET(processor, &now);
  if (!isThere) linux_bind_thread(processor);
  ssize_t written = write(file, bytes, count);
  int error = errno;
  if (!isThere) linux_unbind_thread();
  return written < 0 ? -error : (size_t)written == count ? 0 : -EIO;
}
