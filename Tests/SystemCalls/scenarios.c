// What the conformance tests do with several calls at once, or in processes of their own.
#define _GNU_SOURCE
#include "CConformance.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_ENTRIES = 1 << 17 };

// The number in a name "entry N"; -1 for others.
static long number_of(const char *name) { return strncmp(name, "entry ", 6) ? -1 : strtol(name + 6, NULL, 10); }

// Reads all entries; at every 100th it notes the position and the name there.
static int first_pass(DIR *directory, struct calls_directory_walk *seen) {
  long *positions = calloc(MOST_ENTRIES / 100, sizeof *positions);
  ino_t *inodes = calloc(MOST_ENTRIES / 100, sizeof *inodes);
  size_t noted = 0;
  for (;;) {
    long position = telldir(directory);
    struct dirent *entry = readdir(directory);
    if (!entry) break;
    struct stat status;
    if (fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0) continue;
    if (strcmp(entry->d_name, "..") && (status.st_ino != entry->d_ino || IFTODT(status.st_mode) != entry->d_type))
      seen->disagreements++;
    if (seen->entries++ % 100 == 0 && noted < MOST_ENTRIES / 100) {
      positions[noted] = position;
      inodes[noted++] = entry->d_ino;
    }
  }
  // Backwards, so that nothing lies in a buffer already.
  for (size_t i = noted; i-- > 0;) {
    seekdir(directory, positions[i]);
    struct dirent *entry = readdir(directory);
    seen->sought++;
    if (entry && entry->d_ino == inodes[i]) seen->found_again++;
  }
  free(positions);
  free(inodes);
  return 0;
}

// Reads again, and takes every third name away as it comes by and makes others: what stays is seen once.
static int second_pass(DIR *directory, struct calls_directory_walk *seen) {
  unsigned char *count = calloc(MOST_ENTRIES, 1);
  rewinddir(directory);
  for (struct dirent *entry; (entry = readdir(directory));) {
    long number = number_of(entry->d_name);
    if (number < 0 || number >= MOST_ENTRIES) continue;
    if (count[number] < 2) count[number]++;
    if (number % 3 == 0) unlinkat(dirfd(directory), entry->d_name, 0);
    if (number % 500 == 1) {
      char name[32];
      snprintf(name, sizeof name, "made %ld", number);
      mknodat(dirfd(directory), name, S_IFREG | 0600, 0);
    }
  }
  for (long number = 0; number < (long)seen->entries - 2; number++) {
    if (count[number] == 0) seen->missing++;
    if (count[number] == 2) seen->seen_twice++;
  }
  free(count);
  rewinddir(directory);
  while (readdir(directory)) seen->left++;
  return 0;
}

int calls_walk_directory(const char *path, struct calls_directory_walk *seen) {
  DIR *directory = opendir(path);
  if (!directory) return -errno;
  *seen = (struct calls_directory_walk){0};
  first_pass(directory, seen);
  second_pass(directory, seen);
  closedir(directory);
  return 0;
}

int calls_deep_tree(const char *path, int depth, int length) {
  char name[256] = {0};
  memset(name, 'd', (size_t)length);
  int home = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (home < 0) return -errno;
  int at = dup(home), reached = 0;
  for (; reached < depth; reached++) {
    int next = mkdirat(at, name, 0755) < 0 ? -1 : openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (next < 0) break;
    close(at);
    at = next;
  }
  // Up again by `..`, removing each.
  for (int level = 0; level < reached; level++) {
    int parent = openat(at, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0 || unlinkat(parent, name, AT_REMOVEDIR) < 0) {
      reached = -errno;
      break;
    }
    close(at);
    at = parent;
  }
  struct stat there, here;
  if (reached >= 0 && (fstat(at, &there) < 0 || fstat(home, &here) < 0 || there.st_ino != here.st_ino)) reached = -ESTALE;
  close(at);
  close(home);
  return reached;
}

struct report {
  char *at;
  size_t left;
};

static void tell(struct report *report, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int count = vsnprintf(report->at, report->left, format, arguments);
  va_end(arguments);
  if (count < 0 || (size_t)count >= report->left) return;
  report->at += count;
  report->left -= (size_t)count;
}

static int outcome(long result) { return result < 0 ? errno : 0; }

// What a second process can lock while this one has locked something: each way against each.
static void locks(struct report *report) {
  struct { const char *name; int way, type; } held[] = {
    {"flock shared", 0, LOCK_SH}, {"flock alone", 0, LOCK_EX}, {"record shared", 1, F_RDLCK}, {"record alone", 1, F_WRLCK},
    {"open file shared", 2, F_RDLCK}, {"open file alone", 2, F_WRLCK},
  };
  for (size_t i = 0; i < 6; i++) {
    int fd = open("file", O_RDWR | O_CLOEXEC);
    struct flock mine = {.l_type = (short)held[i].type, .l_whence = SEEK_SET, .l_start = 100, .l_len = 100};
    int result = held[i].way == 0 ? flock(fd, held[i].type | LOCK_NB)
                                  : fcntl(fd, held[i].way == 1 ? F_SETLK : F_OFD_SETLK, &mine);
    tell(report, "%s: %d\n", held[i].name, outcome(result));
    int ends[2];
    if (pipe(ends) < 0) return;
    pid_t child = fork();
    if (child == 0) {
      int answers[18], n = 0;
      for (size_t j = 0; j < 6; j++) {
        for (int start = 50; start <= 250; start += 100) {
          int other = open("file", O_RDWR);
          struct flock theirs = {.l_type = (short)held[j].type, .l_whence = SEEK_SET, .l_start = start, .l_len = 60};
          answers[n++] = outcome(held[j].way == 0 ? flock(other, held[j].type | LOCK_NB)
                                                   : fcntl(other, held[j].way == 1 ? F_SETLK : F_OFD_SETLK, &theirs));
          close(other);
        }
      }
      _exit(write(ends[1], answers, sizeof answers) != sizeof answers);
    }
    int answers[18] = {0};
    close(ends[1]);
    if (read(ends[0], answers, sizeof answers) != sizeof answers) tell(report, "nothing\n");
    close(ends[0]);
    waitpid(child, NULL, 0);
    for (int n = 0; n < 18; n++) tell(report, "%d ", answers[n]);
    tell(report, "\n");
    close(fd);
  }
}

static void limited(struct report *report) {
  struct rlimit limit = {20000, 20000};
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limit);
  int fd = open("file", O_RDWR | O_CLOEXEC);
  char bytes[100] = {0};
  tell(report, "RLIMIT_FSIZE: ftruncate %d", outcome(ftruncate(fd, 20001)));
  tell(report, ", truncate %d", outcome(truncate("file", 30000)));
  tell(report, ", to the limit %d", outcome(ftruncate(fd, 20000)));
  tell(report, ", pwrite at it %d", outcome(pwrite(fd, bytes, 100, 20000)));
  ssize_t written = pwrite(fd, bytes, 100, 19950);
  tell(report, ", across %zd", written);
  tell(report, ", fallocate %d", outcome(fallocate(fd, 0, 0, 20001)));
  struct stat status;
  fstat(fd, &status);
  tell(report, ", size %lld\n", (long long)status.st_size);
  close(fd);
}

static void working_directories(struct report *report, const char *base) {
  char here[4096];
  size_t skip = strlen(base);
  if (chdir("a/b") < 0) return tell(report, "chdir %d\n", errno);
  tell(report, "in %s", getcwd(here, sizeof here) ? here + skip : "nowhere");
  if (rename("../../a", "../../c") < 0) tell(report, " rename %d", errno);
  tell(report, ", in %s", getcwd(here, sizeof here) ? here + skip : "nowhere");
  struct stat status;
  if (stat("..", &status) == 0) tell(report, ", .. has %ju links", (uintmax_t)status.st_nlink);
  if (rename("../b", "../../d") < 0) tell(report, " rename %d", errno);
  tell(report, ", in %s", getcwd(here, sizeof here) ? here + skip : "nowhere");
  if (rmdir("../d") < 0) tell(report, " rmdir %d", errno);
  tell(report, ", getcwd %d", getcwd(here, sizeof here) ? 0 : errno);
  tell(report, ", mkdir %d", outcome(mkdir("new", 0700)));
  tell(report, ", open %d", outcome(open("new", O_CREAT | O_RDWR | O_CLOEXEC, 0600)));
  tell(report, ", stat . %d", outcome(stat(".", &status)));
  tell(report, ", links %ju\n", (uintmax_t)status.st_nlink);
}

int calls_in_processes(const char *directory, char *text, size_t count) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) < 0) return -errno;
  pid_t child = fork();
  if (child < 0) return -errno;
  if (child == 0) {
    static char room[8192];
    struct report report = {room, sizeof room};
    if (chdir(directory) < 0) _exit(1);
    locks(&report);
    limited(&report);
    working_directories(&report, directory);
    ssize_t length = report.at - room;
    _exit(write(ends[1], room, (size_t)length) != length);
  }
  close(ends[1]);
  ssize_t got = 0, part;
  while ((part = read(ends[0], text + got, count - 1 - (size_t)got)) > 0) got += part;
  text[got] = 0;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? 0 : -ECHILD;
}
