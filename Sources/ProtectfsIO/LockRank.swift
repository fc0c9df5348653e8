/// Every lock of the package, in the order in which a thread takes them: one that it takes comes after all that it
/// holds.
///
/// In debug builds a thread that breaks this order crashes and says which two locks it was; and so does one that makes
/// a system call of this module, or waits, under a lock that comes from ``firstWithoutSystemCalls`` on, or that takes
/// another lock under a leaf. Release builds know no ranks.
///
/// ARCHITECTURE.md, "Lock order", has the same table; a test compares the two.
public enum LockRank: UInt8, CaseIterable, Comparable, Sendable {
  // MARK: Held across system calls

  /// A lock of a test's own.
  case test
  /// The clients of the control socket.
  case controlClients
  /// One secret at a time is tried.
  case keyDerivation
  /// Whether an erasure by others has been carried out; held until it is.
  case erasure
  /// The keybag on disk: one change at a time.
  case keybagFile
  /// The opened keybag of a rotation.
  case rotation
  /// Lock events on their way to clients and the log, in their order.
  case announcements
  /// The stream of an open directory, until it is there; copies from a file to another.
  case openDirectory
  /// The position and the buffer of a directory's stream.
  case directoryStream
  /// Shared by whoever wraps a file's key and writes it into its record.
  case keyChanges
  /// Chunks of a rekey that a crash cut short, while they are written again.
  case replay
  /// The modification time of a backing file, while it is set.
  case timeChange
  /// A file's contents, record and key. Several files' by a batch of the rekey engine alone, in any order: no other
  /// thread waits for one while it holds another.
  case contents
  /// The mode, owner and capabilities of a file, while they are changed, or restored after a write of a rekey.
  case privileges
  /// The names of a tree, from a rename until the nodes are known at their new places.
  case renames
  /// The mode of a backing file, while its owner has temporary permissions.
  case temporaryPermissions
  /// The slots of the journal of rekeys.
  case rekeyJournal
  /// The clients that listen, while each is sent an event, which waits for none.
  case listeners
  /// Whether the processors are kept out of deep sleep.
  case wakeupLatency
  /// What a command has counted, while it says so.
  case commandProgress
  /// The line of a terminal that says how far a command has come.
  case progressLine
  /// Who listens to mounts in a program, and what follows the mounts.
  case mountWatcher
  /// Who listens to one mount.
  case mountFollower
  /// A listener's view of its mounts; held while an event is delivered to it, which waits for nothing.
  case protectedDataListener
  /// The hold of a program on a lock.
  case lockHold
  /// A program's delay of an announced lock, which its holds share.
  case announcedDelay

  // MARK: Other locks, but no system calls

  /// The lock state, its deadlines and the clients that delay a lock.
  case lockState
  /// The nodes of a sixteenth of the inode numbers.
  case inodeShard
  /// What is known and open of an inode.
  case nodeState
  /// The record, the cipher and the refusal of an open file.
  case protection
  // MARK: Leaves

  /// The keys of a class.
  case classSlot
  /// The keybag that the daemon goes by.
  case currentKeybag
  /// Wrong passcodes; and on a host what shows who has changed the keybag.
  case passcodeAttempts
  /// The files that are open.
  case openFiles
  /// The modification time that the kernel has of a file.
  case modificationTime
  /// The ring of open directories, and the files that were looked up.
  case directoryCache
  /// Numbers shared with the unmounter.
  case sharedNumbers
  /// Names that were moved while someone goes through the tree, and those that files of an explicit class have left.
  case movedNames
  /// Backing names that were reported.
  case undecodableNames
  /// Batches of rekeys that a crash has left.
  case unreplayedBatches
  /// Files whose rekeys are pending.
  case rekeyQueue
  /// Records that are read again before a lock.
  case recordRenewal
  /// The key of a cipher.
  case cipherKey
  /// Contexts of a cipher that are not in use.
  case cipherContexts
  /// Requests that were put off.
  case backlog
  /// Workers that wait for a call; threads in reserve, and what one of them is to do.
  case idleWorkers
  /// Threads of the rings that have no queue.
  case requestRings
  /// Seeks that wait for the kernel's pages.
  case writebackQueue
  /// Work after the answers of rings; and directories whose files are read ahead of a program.
  case readAhead
  /// Where the kernel says what it has forgotten.
  case pendingForgets
  /// Threads and batches of page invalidations.
  case pageInvalidation
  /// The nodes of a batch of page invalidations.
  case invalidationBatch
  /// How many refusals were logged, and which write-backs of a lock failed.
  case refusals
  /// Events that wait for one client.
  case eventQueue
  /// Calls that last.
  case callCount
  /// The scripts of hooks, and the locks that wait for them.
  case hooks
  /// Files that wait to be copied.
  case copyTasks
  /// Where files with several names were restored to.
  case restoredNames
  /// What a command does, and whether it is to end.
  case commandState
  /// Events that wait for a task that listens.
  case eventMailbox
  /// A call to a daemon that a task waits for, and one of a file system that is not waited for without end.
  case daemonCall
  /// The mount of an app, and the notifications that wait for its main queue.
  case application
  /// The directories that stand in for mounts in a test.
  case standInMounts
  /// The state of one of them.
  case standInState

  /// The first of the locks under which no system call is made, and nothing is waited for.
  public static let firstWithoutSystemCalls = LockRank.lockState
  /// The first of the locks under which no other lock is taken either.
  public static let firstLeaf = LockRank.classSlot

  /// Whether a thread takes `one` before `other`.
  public static func < (one: LockRank, other: LockRank) -> Bool { one.rawValue < other.rawValue }
}
