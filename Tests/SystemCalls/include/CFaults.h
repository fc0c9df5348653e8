// How the tests steer what stands in the place of the store's calls (Tests/FaultInjection): a file that both map.
#ifndef PROTECTFS_TESTS_FAULTS_H
#define PROTECTFS_TESTS_FAULTS_H

#include <stdint.h>

// The environment variable that names the file.
#define FAULTS_VARIABLE "PROTECTFS_FAULTS"

// Which calls count.
enum {
  FAULTS_CHANGES = 1, // those that change the backing store
  FAULTS_READS = 2,   // those that read it
  FAULTS_WRITES = 4,  // pwrite(2) alone
  FAULTS_ROOM = 8,    // those that need room on the device
  FAULTS_SYNC = 16,   // syncfs(2) alone
  // None; but names cannot be exchanged, as on NFS.
  FAULTS_NO_EXCHANGE = 32,
  FAULTS_FLUSH = 64,    // fsync(2) and fdatasync(2) alone
  FAULTS_RECORDS = 128, // fgetxattr(2) alone
};

// What happens at the call that is meant.
enum {
  FAULTS_COUNT,      // nothing: calls are counted
  FAULTS_FAIL,       // it fails, and nothing was done
  FAULTS_FAIL_ON,    // it and all that follow fail
  FAULTS_SHORT,      // half is written, and the next write fails
  FAULTS_END_BEFORE, // the process ends before it
  FAULTS_END_AFTER,  // the process ends after it
  FAULTS_STALL,      // it takes a second and a half
  FAULTS_SLOW,       // it and all that follow take a quarter of a second
  FAULTS_HANG,       // it and all that follow wait until this is disarmed
  FAULTS_FAIL_AFTER, // it fails, and was done
  FAULTS_HOLD,       // it is done, and returns when this is disarmed
};

// The exit status of a process that was ended.
#define FAULTS_STATUS 99

struct faults {
  uint32_t armed, kinds, action, error;
  // Which of the calls that count is meant, from 1.
  uint32_t at;
  // How many there have been since it was armed.
  uint32_t seen;
  // A write was cut short: the next one fails.
  uint32_t pending;
  // How many calls wait.
  uint32_t hanging;
  // The name of the call that was meant, once there was one.
  char hit[32];
  // The directory in and below which calls count.
  char backing[512];
};

struct faults *faults_open(const char *path, const char *backing);
void faults_close(struct faults *faults);
void faults_arm(struct faults *faults, uint32_t kinds, uint32_t action, uint32_t at, uint32_t error);
void faults_disarm(struct faults *faults);
uint32_t faults_hanging(const struct faults *faults);
uint32_t faults_seen(const struct faults *faults);

#endif
