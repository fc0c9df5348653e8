#include "pausing.h"

#include <sqlite3.h>
#include <string.h>
#include <unistd.h>

static sqlite3_vfs storage, *original;
// SQLite has one table of functions for main files and one for the others, which it does not lock.
static sqlite3_io_methods main_file, other_file;
static int (*write_main)(sqlite3_file *, const void *, int, sqlite3_int64);
static int (*write_other)(sqlite3_file *, const void *, int, sqlite3_int64);
static int armed;
static long writes;

static void pause_here(void) {
  static const char said[] = "paused\n";
  if (write(STDOUT_FILENO, said, strlen(said)) < 0) return;
  for (char c = 0; c != '\n' && read(STDIN_FILENO, &c, 1) == 1;) {}
}

static int counted_main(sqlite3_file *file, const void *data, int count, sqlite3_int64 offset) {
  writes++;
  if (armed > 0 && --armed == 0) pause_here();
  return write_main(file, data, count, offset);
}

static int counted_other(sqlite3_file *file, const void *data, int count, sqlite3_int64 offset) {
  writes++;
  return write_other(file, data, count, offset);
}

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out_flags) {
  (void)vfs;
  int result = original->xOpen(original, name, file, flags, out_flags);
  if (result != SQLITE_OK || !file->pMethods) return result;
  int is_main = (flags & SQLITE_OPEN_MAIN_DB) != 0;
  sqlite3_io_methods *methods = is_main ? &main_file : &other_file;
  if (!methods->iVersion) {
    *methods = *file->pMethods;
    if (is_main) write_main = methods->xWrite;
    else write_other = methods->xWrite;
    methods->xWrite = is_main ? counted_main : counted_other;
  }
  file->pMethods = methods;
  return result;
}

int pausing_install(void) {
  original = sqlite3_vfs_find(NULL);
  if (!original) return SQLITE_ERROR;
  storage = *original;
  storage.zName = "pausing";
  storage.pNext = NULL;
  storage.xOpen = open_file;
  return sqlite3_vfs_register(&storage, 1);
}

void pausing_arm(int count) { armed = count; }

long pausing_writes(void) { return writes; }
