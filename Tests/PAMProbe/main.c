// A program that uses the parts of the PAM module as one does in which users log in, with handlers of its own.
//
// usage: PAMProbe children|secret|text|standard
//
// Prints what does not hold, and ends with 1 then.
#define _GNU_SOURCE
#include "pam_protectfs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures = 0;

static void expect(bool holds, const char *what) {
  if (holds) return;
  failures++;
  printf("%s\n", what);
}

// MARK: Children

static volatile sig_atomic_t signal_count = 0, alarm_count = 0, found_count = 0;

static void count_signal(int number) {
  (void)number;
  signal_count++;
}

/// As shadow's programs do, which wait for whatever child there is.
static void look_for_children(int number) {
  (void)number;
  alarm_count++;
  if (waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD) found_count++;
}

static void sleep_and_say(const void *text) {
  usleep(200000);
  if (write(1, text, strlen(text)) < 0) return;
  _exit(3);
}

static void describe_itself(const void *context) {
  (void)context;
  char text[64];
  struct rlimit core;
  struct sigaction action;
  getrlimit(RLIMIT_CORE, &core);
  sigaction(SIGCHLD, NULL, &action);
  const int length = snprintf(
      text, sizeof text, "%d %d %d %d", prctl(PR_GET_DUMPABLE), (int)core.rlim_max, getsid(0) == getpid(),
      action.sa_handler == SIG_DFL);
  _exit(write(1, text, (size_t)length) == length ? 0 : 1);
}

static void hang(const void *context) {
  (void)context;
  pause();
}

static void run_program(const void *arguments) {
  protectfs_child_execute(((const char *const *)arguments)[0], arguments);
}

/// Whether a process runs no more: it is gone, or nobody has waited for it.
static bool has_ended(int process) {
  char path[64], state[256] = "";
  snprintf(path, sizeof path, "/proc/%d/stat", process);
  FILE *file = fopen(path, "r");
  if (!file) return true;
  const bool is_read = fgets(state, sizeof state, file) != NULL;
  fclose(file);
  return !is_read || strstr(state, ") Z ");
}

static void test_children(void) {
  struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
  sigaction(SIGCHLD, &action, NULL);
  action.sa_handler = look_for_children;
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval often = {{0, 10000}, {0, 10000}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, NULL);
  char output[64];
  const long long deadline = protectfs_now() + 20000;
  expect(
      protectfs_child_run(sleep_and_say, "text", output, sizeof output, deadline) == 3 && !strcmp(output, "text"),
      "a child says what it has to, and how it ends");
  const char *const arguments[] = {"/bin/sh", "-c", "sleep 0.2; env; exit 5", NULL};
  expect(
      protectfs_child_run(run_program, arguments, output, sizeof output, deadline) == 5 && strstr(output, "LC_ALL=C"),
      "so does a program");
  setitimer(ITIMER_REAL, &never, NULL);
  expect(alarm_count > 10, "the program waits for its children meanwhile");
  expect(found_count == 0, "and finds none");
  expect(signal_count == 0, "nor is it signalled");
  expect(
      protectfs_child_run(describe_itself, NULL, output, sizeof output, deadline) == 0 && !strcmp(output, "0 0 1 1"),
      "a child can be neither dumped nor traced, and has no terminal and no handlers");

  long long begin = protectfs_now();
  expect(protectfs_child_run(hang, NULL, output, sizeof output, begin + 200) < 0, "a child that hangs is given up");
  const char *const hanging[] = {"/bin/sh", "-c", "echo $$; exec sleep 60", NULL};
  expect(
      protectfs_child_run(run_program, hanging, output, sizeof output, protectfs_now() + 300) < 0,
      "so is a program");
  expect(protectfs_now() - begin < 2000, "in time");
  usleep(100000);
  expect(atoi(output) > 1 && has_ended(atoi(output)), "which ends with that");
  expect(wait(NULL) < 0 && errno == ECHILD && signal_count == 0, "none is left");

  // A program that ignores its children loses their statuses.
  signal(SIGCHLD, SIG_IGN);
  expect(
      protectfs_child_run(run_program, arguments, output, sizeof output, deadline) == 5,
      "a program that ignores its children changes nothing");
}

// MARK: Secrets

static void test_secret(void) {
  struct protectfs_secret *secret = protectfs_secret_make();
  expect(secret, "there is room for a secret");
  if (!secret) return;
  secret->user = 1234;
  expect(protectfs_secret_take(secret->passcode, "p\xc3\xa4sscode"), "a passcode is taken");
  expect(!protectfs_secret_take(secret->new_passcode, "p\xe4sscode"), "not one in another encoding");
  const pid_t child = fork();
  if (child == 0) _exit(secret->user == 0 && *secret->passcode == 0 ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  expect(status == 0, "a child does not get it");
  expect(secret->user == 1234 && !strcmp(secret->passcode, "p\xc3\xa4sscode"), "it is there still");

  // The flags of its memory: locked, not dumped.
  FILE *maps = fopen("/proc/self/smaps", "r");
  char line[512], start[32];
  snprintf(start, sizeof start, "%lx-", (unsigned long)secret);
  bool is_own = false, is_protected = false;
  while (maps && fgets(line, sizeof line, maps)) {
    if (!strncmp(line, start, strlen(start))) is_own = true;
    if (!is_own || strncmp(line, "VmFlags:", 8)) continue;
    is_protected = strstr(line, " lo") && strstr(line, " dd");
    break;
  }
  if (maps) fclose(maps);
  expect(is_protected, "its memory is locked, and left out of core dumps");
  protectfs_secret_free(secret);
}

// MARK: Text

static void test_text(void) {
  static const char *const cases[][2] = {
      {"/home/ana/Protected", "/home/ana/Protected"},
      {"/home/\xc3\xa4na/\xe6\x96\x87/\xf0\x9f\x94\x92", "/home/\xc3\xa4na/\xe6\x96\x87/\xf0\x9f\x94\x92"},
      {"a\x1b[31mb\x07\x7f\n", "a?[31mb???"},
      // U+009B, CSI; and the byte alone.
      {"a\xc2\x9b" "31mb\x9b", "a?31mb?"},
      {"\xc2\xa0", "\xc2\xa0"},
      // Cut short, too long, half of a surrogate pair.
      {"\xe6\x96", "??"},
      {"\xc0\xaf\xed\xa0\x80", "?????"},
      {"", ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[64];
    strcpy(text, cases[i][0]);
    protectfs_make_printable(text);
    if (strcmp(text, cases[i][1]) != 0) {
      failures++;
      printf("case %zu is '%s'\n", i, text);
    }
  }
}

// MARK: Standard descriptors

static void test_standard(void) {
  const int kept = fcntl(1, F_DUPFD_CLOEXEC, 10);
  close(0);
  close(2);
  struct protectfs_standard standard = protectfs_standard_fill();
  const int next = open("/dev/null", O_RDONLY);
  expect(next > 2, "no descriptor gets the number of a standard one");
  close(next);
  expect(fcntl(1, F_GETFD) == 0, "one that is open stays");
  protectfs_standard_empty(&standard);
  expect(fcntl(0, F_GETFD) < 0 && fcntl(2, F_GETFD) < 0, "those that were closed are again");
  expect(fcntl(1, F_GETFD) == 0, "and the other is not");
  close(kept);
}

int main(int count, char **arguments) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  static const struct {
    const char *name;
    void (*run)(void);
  } tests[] = {
      {"children", test_children}, {"secret", test_secret}, {"text", test_text}, {"standard", test_standard}};
  for (size_t i = 0; count == 2 && i < sizeof tests / sizeof *tests; i++) {
    if (strcmp(arguments[1], tests[i].name) != 0) continue;
    tests[i].run();
    return failures > 0;
  }
  fprintf(stderr, "usage: PAMProbe children|secret|text|standard\n");
  return 64;
}
