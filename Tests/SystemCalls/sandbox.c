#define _GNU_SOURCE
#include "CSystemCalls.h"

#include <errno.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

// None does anything where it is not refused: addresses, descriptors and processes are none.
static const struct {
  const char *name;
  long number, arguments[5];
} attempts[] = {
    {"execve", SYS_execve},
    {"execveat", SYS_execveat, {-1}},
    {"clone of a process", SYS_clone, {CLONE_SIGHAND}},
    {"clone into a namespace", SYS_clone, {CLONE_THREAD | CLONE_NEWNET}},
    {"unshare", SYS_unshare, {CLONE_NEWNS}},
    {"setns", SYS_setns, {-1}},
    {"ptrace", SYS_ptrace, {PTRACE_CONT, -1}},
    {"process_vm_readv", SYS_process_vm_readv, {-1}},
    {"process_vm_writev", SYS_process_vm_writev, {-1}},
    {"pidfd_getfd", 438, {-1}},
    {"bpf", SYS_bpf, {-1}},
    {"perf_event_open", SYS_perf_event_open},
    {"userfaultfd", SYS_userfaultfd, {-1}},
    {"init_module", SYS_init_module},
    {"kexec_load", SYS_kexec_load, {0, -1}},
    {"io_uring_setup", 425, {0}},
    {"mount", SYS_mount, {0, 0, 0, 0, 0}},
    {"umount2", SYS_umount2, {0, 0}},
    {"move_mount", 429, {-1, 0, -1}},
    {"chroot", SYS_chroot},
    {"open_by_handle_at", SYS_open_by_handle_at, {-1}},
    {"keyctl", SYS_keyctl, {-1}},
    {"setresuid", SYS_setresuid, {-1, -1, -1}},
    {"setgroups", SYS_setgroups, {-1}},
    {"reboot", SYS_reboot},
    {"socket of IPv4", SYS_socket, {AF_INET, SOCK_STREAM}},
    {"socket of netlink", SYS_socket, {AF_NETLINK, SOCK_RAW}},
    {"ioctl that types", SYS_ioctl, {-1, TIOCSTI}},
};

const char *calls_forbidden(int index) {
  return index < (int)(sizeof attempts / sizeof *attempts) ? attempts[index].name : NULL;
}

int calls_attempt(int index) {
  const long *a = attempts[index].arguments;
  return syscall(attempts[index].number, a[0], a[1], a[2], a[3], a[4]) < 0 ? -errno : 0;
}

void calls_use_other_numbers(void) {
#if defined(__x86_64__)
  syscall(0x40000000 | SYS_getpid);  // x32
#endif
}
