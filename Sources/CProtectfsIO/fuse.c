#define _GNU_SOURCE
#include "CProtectfsIO.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

int linux_clone_fuse_device(int device) {
  int clone = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (clone < 0) return -errno;
  uint32_t number = (uint32_t)device;
  if (ioctl(clone, FUSE_DEV_IOC_CLONE, &number) == 0) return clone;
  int error = errno;
  close(clone);
  return -error;
}

// The directory of connections, where nobody has mounted it: for the caller alone, under no name.
static int mount_connections(void) {
  int context = (int)syscall(SYS_fsopen, "fusectl", 1 /* FSOPEN_CLOEXEC */);
  if (context < 0) return -errno;
  int root = -1;
  if (syscall(SYS_fsconfig, context, 6 /* FSCONFIG_CMD_CREATE */, NULL, NULL, 0) == 0)
    root = (int)syscall(SYS_fsmount, context, 1 /* FSMOUNT_CLOEXEC */, 0);
  int error = errno;
  close(context);
  return root < 0 ? -error : root;
}

int linux_open_fuse_abort(unsigned minor) {
  char path[64];
  snprintf(path, sizeof path, "/sys/fs/fuse/connections/%u/abort", minor);
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file >= 0) return file;
  int error = errno;
  int root = mount_connections();
  if (root < 0) return -error;
  snprintf(path, sizeof path, "%u/abort", minor);
  file = openat(root, path, O_WRONLY | O_CLOEXEC);
  error = errno;
  close(root);
  return file < 0 ? -error : file;
}

int linux_ask_fuse_status(unsigned minor) {
#ifdef SYS_ustat
  char status[64];
  return syscall(SYS_ustat, makedev(0, minor), status) < 0 ? -errno : 0;
#else
  (void)minor;
  return -ENOSYS;
#endif
}

int linux_abort_fuse(int file) { return write(file, "1", 1) < 0 ? -errno : 0; }

void linux_refuse_fuse_requests(int device, int error, int stop) {
  // The kernel passes no request to a buffer that is too small for the largest.
  const size_t room = (1 << 20) + 65536;
  char *buffer = malloc(room);
  if (buffer == NULL) return;
  fcntl(device, F_SETFL, O_RDWR | O_NONBLOCK);
  while (1) {
    ssize_t count = read(device, buffer, room);
    if (count < 0 && errno == EAGAIN) {
      struct pollfd events[2] = {{.fd = device, .events = POLLIN}, {.fd = stop, .events = POLLIN}};
      if (poll(events, 2, -1) > 0 && events[0].revents == 0) break;
      continue;
    }
    // The kernel has answered the request itself, or it was withdrawn.
    if (count < 0 && (errno == EINTR || errno == ENOENT || errno == EIO || errno == ENOMEM)) continue;
    if (count < (ssize_t)sizeof(struct fuse_in_header)) break;
    struct fuse_in_header request;
    memcpy(&request, buffer, sizeof request);
    // These are not answered.
    if (request.opcode == FUSE_FORGET || request.opcode == FUSE_BATCH_FORGET || request.opcode == FUSE_INTERRUPT ||
        request.opcode == FUSE_NOTIFY_REPLY)
      continue;
    struct fuse_out_header answer = {sizeof answer, -error, request.unique};
    // If the request was withdrawn meanwhile, the answer is not needed.
    if (write(device, &answer, sizeof answer) < 0 && errno == ENODEV) break;
  }
  free(buffer);
}

int linux_probe_fuse(int device) {
  // Stores no bytes at the start of the root, so nothing changes (fuse_notify_store() in fs/fuse/dev.c).
  struct fuse_notify_store_out nothing = {.nodeid = FUSE_ROOT_ID};
  struct fuse_out_header header = {sizeof header + sizeof nothing, FUSE_NOTIFY_STORE, 0};
  struct iovec parts[2] = {{&header, sizeof header}, {&nothing, sizeof nothing}};
  return writev(device, parts, 2) < 0 ? -errno : 0;
}

int linux_drop_fuse_pages(int device, uint64_t node) {
  struct fuse_out_header header = {.error = FUSE_NOTIFY_INVAL_INODE};
  struct fuse_notify_inval_inode_out inode = {.ino = node, .off = 0, .len = 0};
  struct iovec parts[2] = {{&header, sizeof header}, {&inode, sizeof inode}};
  header.len = sizeof header + sizeof inode;
  return writev(device, parts, 2) < 0 ? -errno : 0;
}

int linux_send_with_descriptor(int socket, const void *bytes, size_t count, int descriptor) {
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
  } control = {0};
  struct iovec part = {(void *)bytes, count};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  control.header.cmsg_level = SOL_SOCKET;
  control.header.cmsg_type = SCM_RIGHTS;
  control.header.cmsg_len = CMSG_LEN(sizeof descriptor);
  memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
  ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  if (sent < 0) return -errno;
  return (size_t)sent == count ? 0 : -EMSGSIZE;
}

ssize_t linux_receive_with_descriptor(int socket, void *bytes, size_t count, int *descriptor) {
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
  } control = {0};
  struct iovec part = {bytes, count};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  *descriptor = -1;
  ssize_t received;
  do {
    received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0) return -errno;
  for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header != NULL; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
      memcpy(descriptor, CMSG_DATA(header), sizeof *descriptor);
  }
  return received;
}
