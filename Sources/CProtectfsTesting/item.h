// Finds out whether a call concerns a stand-in, and asks it.
#ifndef PROTECTFS_TESTING_ITEM_H
#define PROTECTFS_TESTING_ITEM_H

#define _GNU_SOURCE
#include "CProtectfsTesting.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

extern struct protectfs_testing_calls stand_in;

/// Whether there is a stand-in, and this is not a call of its own.
int has_stand_in(void);

/// What a path leads to, opened with O_PATH, if that is in a stand-in; otherwise -1. `exists` says whether there is
/// anything, and may be NULL. errno stays as it is.
int find_item(int directory, const char *path, int follow, int *exists);
/// The same of a call with flags, such as AT_EMPTY_PATH.
int find_flagged_item(int directory, const char *path, int flags);
/// The same of an open file.
int find_open_item(int descriptor);
/// The directory that a path names something in, opened with O_PATH; -1 if there is none. `name` gets what it is named.
int open_parent(int directory, const char *path, char name[NAME_MAX + 1]);
/// Whether an open file is in a stand-in.
int is_inside(int descriptor);

/// Closes an item. errno stays as it is.
void close_item(int item);
/// Sets errno if the answer is an error.
long finish(long answer);

/// The answer of the stand-in to a call on an item, which is closed.
#define ASK(item, call, ...)                                    \
  ({                                                            \
    protectfs_testing_enter();                                  \
    long answer_ = stand_in.call(item __VA_OPT__(, ) __VA_ARGS__); \
    protectfs_testing_leave();                                  \
    close_item(item);                                           \
    answer_;                                                       \
  })

#endif
