// The user's settings and unit. Whatever might hang is a child process with a deadline, which gets nothing of the
// program that logs in: no environment, no descriptors, no signal handlers.
#define _GNU_SOURCE
#include "include/pam_protectfs.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/// What a child does; it writes to its standard output, and ends.
typedef void (*child_body)(const void *context);

/// In a child: signals and descriptors as of a program that was just started.
static void begin_child(int output) {
  sigset_t none;
  sigemptyset(&none);
  for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
  sigprocmask(SIG_SETMASK, &none, NULL);
  const int null = open("/dev/null", O_RDWR);
  if (null < 0 || dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(null, 2) < 0) _exit(127);
  if (syscall(SYS_close_range, 3U, ~0U, 0U) < 0) _exit(127);
}

/// Reads what a child writes until it closes its output; returns the length, or -1 when the time is up.
static ssize_t read_output(int descriptor, char *output, size_t size, long long deadline) {
  size_t length = 0;
  while (true) {
    const long long left = deadline - protectfs_now();
    struct pollfd wait = {.fd = descriptor, .events = POLLIN};
    const int ready = left > 0 ? poll(&wait, 1, (int)left) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return -1;
    char rest[256];
    const bool has_room = length < size - 1;
    const ssize_t count =
        has_room ? read(descriptor, output + length, size - 1 - length) : read(descriptor, rest, sizeof rest);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    if (has_room) length += (size_t)count;
  }
  output[length] = 0;
  return (ssize_t)length;
}

/// Runs a child process. Returns whether it ended well within the time; `output` is then what it wrote, cut to size.
static bool run_child(child_body body, const void *context, char *output, size_t size, int seconds) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) < 0) return false;
  // As pam_unix does: a program that ignores its children or waits for any of them would take this one.
  struct sigaction former, normal = {.sa_handler = SIG_DFL};
  sigaction(SIGCHLD, &normal, &former);
  const long long deadline = protectfs_now() + seconds * 1000LL;
  const pid_t child = fork();
  if (child == 0) {
    begin_child(ends[1]);
    body(context);
    _exit(127);
  }
  close(ends[1]);
  bool is_done = false;
  if (child > 0) {
    const bool has_ended = read_output(ends[0], output, size, deadline) >= 0;
    if (!has_ended) kill(child, SIGKILL);
    // A child that has closed its output is about to end; one that was killed in a call that hangs is left to init.
    int status = 0;
    pid_t ended = 0;
    while ((ended = waitpid(child, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
      if (protectfs_now() > deadline + 500) {
        kill(child, SIGKILL);
        break;
      }
      usleep(2000);
    }
    is_done = has_ended && ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  close(ends[0]);
  sigaction(SIGCHLD, &former, NULL);
  return is_done;
}

// MARK: Settings

struct settings_request {
  const struct protectfs_user *user;
  gid_t groups[256];
  int group_count;
};

/// Becomes the user, and copies the file of settings to standard output. As root, links and devices that the user has
/// put in its place could be followed, and a network file system could know root as nobody.
static void copy_settings(const void *context) {
  const struct settings_request *request = context;
  const struct protectfs_user *user = request->user;
  if (geteuid() == 0) {
    if (syscall(SYS_setgroups, (size_t)request->group_count, request->groups) < 0) return;
    if (syscall(SYS_setresgid, user->group, user->group, user->group) < 0) return;
    if (syscall(SYS_setresuid, user->user, user->user, user->user) < 0) return;
  }
  char path[4096], content[4096];
  const int length = snprintf(path, sizeof path, "%s/.config/protectfs/login.conf", user->home);
  if (length < 0 || (size_t)length >= sizeof path) return;
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return;
  const ssize_t count = read(file, content, sizeof content);
  if (count <= 0 || write(1, content, (size_t)count) != count) return;
  _exit(0);
}

bool protectfs_settings_read(const struct protectfs_user *user, struct protectfs_settings *settings) {
  struct settings_request request = {.user = user, .group_count = 256};
  // The first 256 do.
  if (getgrouplist(user->name, user->group, request.groups, &request.group_count) < 0) request.group_count = 256;
  char content[4097];
  if (!run_child(copy_settings, &request, content, sizeof content, 5)) return false;
  char *rest = content;
  for (char *line; (line = strsep(&rest, "\n"));) {
    static const char name[] = "MOUNTPOINT=";
    if (strncmp(line, name, sizeof name - 1) != 0) continue;
    const char *value = line + sizeof name - 1;
    if (*value != '/' || strlen(value) >= sizeof settings->mount_point) return false;
    strcpy(settings->mount_point, value);
    // It is printed on a terminal.
    for (char *c = settings->mount_point; *c; c++)
      if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    return true;
  }
  return false;
}

// MARK: The unit

static void run_systemctl(const void *context) {
  const char *const *arguments = context;
  static const char *const environment[] = {"PATH=/usr/bin:/bin", "LC_ALL=C", "SYSTEMD_COLORS=0", NULL};
  // passwd(1) is run by a user, with root's rights.
  if (geteuid() == 0 && (setgid(0) < 0 || setuid(0) < 0)) return;
  execve("/usr/bin/systemctl", (char *const *)arguments, (char *const *)environment);
  execve("/bin/systemctl", (char *const *)arguments, (char *const *)environment);
}

static void name_unit(char name[static 64], uid_t user) { snprintf(name, 64, "protectfs-user@%u.service", user); }

bool protectfs_unit_start(uid_t user) {
  char unit[64], output[64];
  name_unit(unit, user);
  const char *const arguments[] = {"systemctl", "--quiet", "--no-ask-password", "start", unit, NULL};
  return run_child(run_systemctl, arguments, output, sizeof output, 25);
}

pid_t protectfs_unit_process(uid_t user) {
  char unit[64], output[64];
  name_unit(unit, user);
  const char *const arguments[] = {"systemctl", "show", "--property=MainPID", "--value", unit, NULL};
  if (!run_child(run_systemctl, arguments, output, sizeof output, 5)) return 0;
  const long process = strtol(output, NULL, 10);
  return process > 0 ? (pid_t)process : 0;
}
