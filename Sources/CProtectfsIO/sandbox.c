#define _GNU_SOURCE
#include "CProtectfsIO.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int linux_set_no_new_privileges(void) { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0; }

int linux_keep_capabilities(uint64_t kept) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct sets[2];
  // Numbers after the last capability that the kernel knows fail with EINVAL.
  for (int number = 0; number < 64; number++) {
    int bounded = prctl(PR_CAPBSET_READ, number, 0, 0, 0);
    if (bounded < 0) break;
    // This needs CAP_SETPCAP. Without it the set has no effect, since programs no longer give privileges.
    if (bounded && !(kept >> number & 1)) prctl(PR_CAPBSET_DROP, number, 0, 0, 0);
  }
  if (syscall(SYS_capget, &header, sets) < 0) return -errno;
  for (int half = 0; half < 2; half++) {
    sets[half].permitted &= (uint32_t)(kept >> 32 * half);
    sets[half].effective = sets[half].permitted;
    // The ambient set goes with the inheritable one (capabilities(7)).
    sets[half].inheritable = 0;
  }
  return syscall(SYS_capset, &header, sets) < 0 ? -errno : 0;
}

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "the filter of system calls does not know this architecture"
#endif

// Instructions of the filter (seccomp(2)). Both architectures are little-endian: the low word of an argument is first.
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, action)
#define UNLESS(comparison, value, skip) BPF_JUMP(BPF_JMP | comparison | BPF_K, value, 0, skip)
#define REFUSE(error) RETURN(SECCOMP_RET_ERRNO | (error))

// A call that is refused.
#define DENY(number) UNLESS(BPF_JEQ, number, 1), REFUSE(EPERM)
// A call that is refused unless the bits of a mask have a value in an argument.
#define ONLY(number, argument, mask, value)                                                                  \
  UNLESS(BPF_JEQ, number, 5), LOAD(args[argument]), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),               \
      UNLESS(BPF_JEQ, value, 1), RETURN(SECCOMP_RET_ALLOW), REFUSE(EPERM)
// A call that is refused if an argument has a value.
#define NEVER(number, argument, value)                                                                       \
  UNLESS(BPF_JEQ, number, 4), LOAD(args[argument]), UNLESS(BPF_JEQ, value, 1), REFUSE(EPERM),                \
      RETURN(SECCOMP_RET_ALLOW)

#define NEW_NAMESPACES                                                                                       \
  (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

static const struct sock_filter first_instructions[] = {
    // Numbers are those of one architecture. On another they would mean other calls.
    LOAD(arch), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0), RETURN(SECCOMP_RET_KILL_PROCESS),
    LOAD(nr),
#if defined(__x86_64__)
    // The same calls under other numbers (x32).
    UNLESS(BPF_JGE, 0x40000000, 1), RETURN(SECCOMP_RET_KILL_PROCESS),
#endif
};

// For a daemon that has rings: they were made before, take nothing but commands of FUSE, and are enabled by the threads
// that use them.
static const struct sock_filter ring_instructions[] = {
    UNLESS(BPF_JEQ, 426 /* io_uring_enter */, 1), RETURN(SECCOMP_RET_ALLOW),
    ONLY(427 /* io_uring_register */, 1, 0xffffffff, 12 /* IORING_REGISTER_ENABLE_RINGS */),
};

static const struct sock_filter instructions[] = {
    // The daemon starts no programs or processes, only threads. A filter cannot see the flags of clone3(2); if that
    // fails as unknown, the C library uses clone(2).
    DENY(SYS_execve), DENY(SYS_execveat),
    ONLY(SYS_clone, 0, CLONE_THREAD | NEW_NAMESPACES, CLONE_THREAD),
    UNLESS(BPF_JEQ, SYS_clone3, 1), REFUSE(ENOSYS),
#if defined(__x86_64__)
    DENY(SYS_fork), DENY(SYS_vfork),
#endif
    // Access to other processes.
    DENY(SYS_ptrace), DENY(SYS_process_vm_readv), DENY(SYS_process_vm_writev), DENY(SYS_kcmp),
    DENY(438 /* pidfd_getfd */), DENY(440 /* process_madvise */),
    // Ways to run code in the kernel, to look into it, or past this filter (io_uring).
    DENY(SYS_bpf), DENY(SYS_perf_event_open), DENY(SYS_userfaultfd), DENY(SYS_init_module), DENY(SYS_finit_module),
    DENY(SYS_delete_module), DENY(SYS_kexec_load), DENY(SYS_kexec_file_load), DENY(SYS_syslog),
    DENY(425 /* io_uring_setup */), DENY(426 /* io_uring_enter */), DENY(427 /* io_uring_register */),
    // Mounts and namespaces. A worker thread only takes a umask of its own.
    DENY(SYS_mount), DENY(SYS_umount2), DENY(SYS_pivot_root), DENY(SYS_chroot), DENY(SYS_setns),
    DENY(428 /* open_tree */), DENY(429 /* move_mount */), DENY(430 /* fsopen */), DENY(431 /* fsconfig */),
    DENY(432 /* fsmount */), DENY(433 /* fspick */), DENY(442 /* mount_setattr */), DENY(467 /* open_tree_attr */),
    ONLY(SYS_unshare, 0, 0xffffffff, CLONE_FS),
    // Files by number, which bypasses directory permissions, and watches on the files of all users.
    DENY(SYS_open_by_handle_at), DENY(SYS_fanotify_init),
    // Keyrings: the daemon uses none of the kernel's keys.
    DENY(SYS_add_key), DENY(SYS_request_key), DENY(SYS_keyctl),
    // The daemon keeps its user: chown(2) gives new files to their owners.
    DENY(SYS_setuid), DENY(SYS_setgid), DENY(SYS_setreuid), DENY(SYS_setregid), DENY(SYS_setresuid),
    DENY(SYS_setresgid), DENY(SYS_setfsuid), DENY(SYS_setfsgid), DENY(SYS_setgroups),
    // Administration of the machine.
    DENY(SYS_reboot), DENY(SYS_swapon), DENY(SYS_swapoff), DENY(SYS_acct), DENY(SYS_quotactl),
    DENY(443 /* quotactl_fd */), DENY(SYS_sethostname), DENY(SYS_setdomainname), DENY(SYS_settimeofday),
    DENY(SYS_clock_settime), DENY(SYS_clock_adjtime), DENY(SYS_adjtimex), DENY(SYS_vhangup),
    DENY(SYS_personality),
#if defined(__x86_64__)
    DENY(SYS_iopl), DENY(SYS_ioperm), DENY(SYS_modify_ldt),
#endif
    // The daemon communicates only within this machine, and sends no input to a terminal that it may share with a
    // shell.
    ONLY(SYS_socket, 0, 0xffffffff, AF_UNIX), ONLY(SYS_socketpair, 0, 0xffffffff, AF_UNIX),
    NEVER(SYS_ioctl, 1, TIOCSTI),

    RETURN(SECCOMP_RET_ALLOW),
};

int linux_filter_system_calls(int allows_rings) {
  struct sock_filter
      all[(sizeof first_instructions + sizeof ring_instructions + sizeof instructions) / sizeof(struct sock_filter)];
  size_t size = 0;
#define APPEND(part) memcpy((char *)all + size, part, sizeof part), size += sizeof part
  APPEND(first_instructions);
  if (allows_rings) APPEND(ring_instructions);
  APPEND(instructions);
  struct sock_fprog program = {(unsigned short)(size / sizeof *all), all};
  // For all threads, which then take no new privileges either. Without the second flag, kernels before 5.16 turn off
  // the processor's speculation, as for programs that run untrusted code.
  unsigned flags = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW;
  long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  // The number of a thread that has another filter.
  if (result > 0) return -EBUSY;
  return result < 0 ? -errno : 0;
}
