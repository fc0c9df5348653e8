/// How the command ends. The numbers are part of its interface, and listed in protectfs(1).
enum ExitStatus: Int32, CaseIterable {
  case success = 0
  /// Anything that has no number of its own.
  case failure = 1
  /// The passcode or the recovery key is wrong.
  case wrongSecret = 3
  /// The backing directory holds no store.
  case noStore = 4
  /// The backing directory holds a store already, or is not empty.
  case alreadyAStore = 5
  /// There is no protectfs mount at the path.
  case notMounted = 6
  /// The store or the mount point is mounted already.
  case alreadyMounted = 7
  /// The keybag is damaged or was tampered with.
  case keybagCorrupt = 8
  /// The device key is missing or unusable.
  case deviceKeyMissing = 9
  /// The device key is not the one that the store was made with.
  case foreignDeviceKey = 10
  /// The user may not do this.
  case notPermitted = 11
  /// The class of a file is locked.
  case locked = 12
  /// The mount's daemon does not answer.
  case noAnswer = 13
  /// The mount point cannot be used: missing, no directory, not empty, inside the backing directory.
  case unsuitableMountPoint = 14
  /// Some of several files failed.
  case partial = 15
  /// An unlock cancelled the lock that was waited for.
  case lockCancelled = 16
  /// The store was written by a newer version.
  case unsupportedStore = 17
  /// FUSE is not there or not usable.
  case noFUSE = 18
  /// Something is using the mount.
  case busy = 19
  /// Too many passcodes were wrong: the next is not tried yet.
  case passcodeDelayed = 20
  /// The store was erased.
  case storeErased = 21
  /// A rotation or a restore was interrupted, and can be gone on with.
  case interrupted = 22
  /// The class key of a file was erased, reset or rotated away.
  case keyRevoked = 23
  /// Unmounted, but the file system lives on: somebody holds it.
  case stillHeld = 24
  /// The daemon was killed, and what the kernel has of files is readable for who has them open.
  case pagesRemain = 25
  /// The mount is locked, but its backing store did not answer, or a write went on: files may have lost writes.
  case writesLost = 26
  /// A lock was asked for while the secret was being checked: nothing was unlocked.
  case unlockCancelled = 27
  /// Files or directories have another class than the expected one.
  case unexpectedClass = 28
  /// The control group of the process leaves too little memory for a passcode.
  case tooLittleMemory = 29
  /// The store was lost to another host, or its file system refuses this one: the daemon, or a command that was
  /// changing it, has ended.
  case storeLost = 30
  /// The arguments are wrong: `EX_USAGE` of sysexits(3).
  case usage = 64
}
