// Child processes of the program that logs in. What might hang is done in one, with a deadline. It gets nothing of the
// program: no environment, no descriptors, no signal handlers, no terminal; and the program is not disturbed by it.
#define _GNU_SOURCE
#include "include/pam_protectfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

long long protectfs_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (long long)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

long long protectfs_deadline(void) { return protectfs_now() + 25000; }

long long protectfs_within(long long milliseconds, long long deadline) {
  const long long time = protectfs_now() + milliseconds;
  return time < deadline ? time : deadline;
}

bool protectfs_wait(int descriptor, long long deadline) {
  while (true) {
    const long long left = deadline - protectfs_now();
    struct pollfd wait = {.fd = descriptor, .events = POLLIN};
    const int ready = poll(&wait, 1, left > 0 ? (int)left : 0);
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

/// As fork(2), but no signal tells the parent of the end, and wait(2) finds the child only with __WALL (clone(2)). What
/// the C library would do in parent and child is not done.
///
/// - Parameter process: is set to a descriptor of the child (pidfd_open(2)), if it is not NULL.
static pid_t split(int *process) {
  struct clone_args arguments = {
      .flags = process ? CLONE_PIDFD : 0,
      .pidfd = (uint64_t)(uintptr_t)process,
  };
  return (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
}

void protectfs_child_conceal(void) {
  const struct rlimit none = {0, 0};
  if (setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0) _exit(127);
}

/// In a child, in which no signal is taken yet: signals, descriptors and terminal as of a service.
static void begin_child(int output) {
  protectfs_child_conceal();
  setsid();
  const int null = open("/dev/null", O_RDWR);
  if (null < 0 || dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(null, 2) < 0) _exit(127);
  if (syscall(SYS_close_range, 3U, ~0U, 0U) < 0) _exit(127);
  for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
}

/// Reads what a child writes until it closes its output; false when the time is up.
static bool read_output(int descriptor, char *output, size_t size, long long deadline) {
  size_t length = 0;
  while (protectfs_wait(descriptor, deadline)) {
    char rest[256];
    const bool has_room = length < size - 1;
    const ssize_t count =
        has_room ? read(descriptor, output + length, size - 1 - length) : read(descriptor, rest, sizeof rest);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    if (has_room) length += (size_t)count;
    output[length] = 0;
    if (count == 0) return true;
  }
  return false;
}

/// Waits for the end of a child, which has closed its output. Returns its exit status, or -1.
static int reap(pid_t child, int process, bool has_closed, long long deadline) {
  const bool has_ended = has_closed && protectfs_wait(process, deadline);
  if (!has_ended) {
    syscall(SYS_pidfd_send_signal, process, SIGKILL, NULL, 0U);
    // One in a call that hangs ends with that, and is left to init then.
    protectfs_wait(process, protectfs_now() + 500);
  }
  int status = 0;
  const pid_t reaped = waitpid(child, &status, __WALL | WNOHANG);
  return has_ended && reaped == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int protectfs_child_run(
    protectfs_child_body body, const void *context, char *output, size_t size, long long deadline) {
  int ends[2], process = -1;
  if (pipe2(ends, O_CLOEXEC) < 0) return -1;
  // A handler of the program's must not run in the child.
  sigset_t all, former;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &former);
  const pid_t child = split(&process);
  if (child == 0) {
    begin_child(ends[1]);
    body(context);
    _exit(127);
  }
  pthread_sigmask(SIG_SETMASK, &former, NULL);
  close(ends[1]);
  int status = -1;
  if (child > 0) {
    status = reap(child, process, read_output(ends[0], output, size, deadline), deadline);
    close(process);
  }
  close(ends[0]);
  return status;
}

void protectfs_child_execute(const char *path, const char *const *arguments) {
  static const char *const environment[] = {"PATH=/usr/bin:/bin", "LC_ALL=C", "SYSTEMD_COLORS=0", NULL};
  // In a child of its own: a process that executes a program signals its end again, and wait(2) finds it.
  const pid_t self = getpid(), child = split(NULL);
  if (child == 0) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == self)
      execve(path, (char *const *)arguments, (char *const *)environment);
    _exit(127);
  }
  int status = 0;
  pid_t reaped = -1;
  while (child > 0 && (reaped = waitpid(child, &status, __WALL)) < 0 && errno == EINTR) {}
  _exit(reaped > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 127);
}

// MARK: Standard descriptors

struct protectfs_standard protectfs_standard_fill(void) {
  struct protectfs_standard standard = {{false, false, false}};
  for (int number = 0; number < 3; number++) {
    if (fcntl(number, F_GETFD) >= 0 || errno != EBADF) continue;
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    standard.is_filled[number] = null == number;
    // Another thread was faster.
    if (null >= 0 && null != number) close(null);
  }
  return standard;
}

void protectfs_standard_empty(struct protectfs_standard *standard) {
  for (int number = 0; number < 3; number++)
    if (standard->is_filled[number]) close(number);
}
