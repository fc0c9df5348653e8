// What the stand-in for a mount needs before a test process has a second thread.
#ifndef PROTECTFS_CTESTING_H
#define PROTECTFS_CTESTING_H

/// Whether the process is to use the stand-in: there is no /dev/fuse that it may use, or PROTECTFS_TESTING says so
/// (`stand-in`, or `mount` for the other). Mode bits count for such a process, also if it is root's.
int protectfs_testing_uses_stand_in(void);

#endif
