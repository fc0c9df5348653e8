// SQLite's own storage, with a counter and a breakpoint: so a lock can come in the very middle of a checkpoint.
#ifndef PROTECTFS_EXAMPLES_PAUSING_H
#define PROTECTFS_EXAMPLES_PAUSING_H

/// Makes it the storage of all databases that the process opens from now on; a result code of SQLite.
int pausing_install(void);

/// Has the process say "paused" at the write to a database's main file after so many others, and wait for a line.
void pausing_arm(int writes);

/// How many writes there were to files of databases, journals among them.
long pausing_writes(void);

#endif
