import ProtectfsIO
import StoreFormat
import SystemPackage

/// An attempt to unlock a store with a passcode: one process at a time reads how many were wrong, tries one, and writes
/// the new count. It holds a lock on `attempts.new`, which ends with its process whatever becomes of it; on `attempts`
/// where there is no room for another file.
///
/// It holds neither where the secret cannot be guessed, and where the store cannot be written to: then nothing is
/// counted in it; nor for a passcode that a login program has accepted.
package struct UnlockAttempt: ~Copyable {
  private var aside: AtomicFile?
  private var inPlace: Descriptor?
  /// Whether a wrong passcode counts, and a delay applies.
  let isCounted: Bool

  fileprivate init(
    aside: consuming AtomicFile? = nil, inPlace: consuming Descriptor? = nil, isCounted: Bool = true
  ) {
    self.aside = aside
    self.inPlace = inPlace
    self.isCounted = isCounted
  }

  /// Writes the new count, and lets others go on; returns whether it could be written. Where it cannot be written
  /// aside, it is written over the one before.
  mutating func write(_ record: AttemptsRecord, to name: PathName, in directory: borrowing Descriptor) -> Bool {
    if var aside = aside.take() {
      do throws(Errno) {
        try unsafe record.bytes.withBytes { (bytes) throws(Errno) in try unsafe aside.commit(bytes) }
        return true
      } catch {
        guard !aside.isCommitted else { return false }
        let isWritten = (try? Self.overwrite(record, name, in: directory)) != nil
        // The lock of the file is held until here.
        return isWritten && !aside.isCommitted
      }
    }
    guard let lock = inPlace.take() else { return false }
    let isWritten = (try? Self.overwrite(record, name, in: directory)) != nil
    _ = consume lock
    return isWritten
  }

  /// Writes a record over what is there. It is one write within a sector, and never shorter than what the count before
  /// left, so that nothing has to be cut off: a crash leaves the old record or the new one.
  private static func overwrite(
    _ record: AttemptsRecord, _ name: PathName, in directory: borrowing Descriptor
  ) throws(Errno) {
    let file = try directory.openAttempts(name)
    let bytes = record.bytes
    try file.write(bytes)
    if try file.status().size > UInt64(bytes.count) { try file.truncate(to: UInt64(bytes.count)) }
    try file.synchronizeData()
  }
}

extension KeybagFile {
  /// Begins an attempt, after those of other processes. A recovery key and a key file cannot be guessed, and wait for
  /// none.
  ///
  /// The caller may hold nothing that a lock of the mount waits for: the process whose attempt it waits for may be
  /// stopped.
  /// - Parameters:
  ///   - isCounted: whether a wrong passcode counts. One that a login program has accepted does not, and waits for no
  ///     delay: it is no guess at the store, even where the store has another.
  ///   - patience: for how long one process may take. Who can open the backing directory could else keep everyone out
  ///     for good. One that was only slow counts what it tried all the same.
  package func attempt(
    with secret: borrowing UnlockSecret, isCounted: Bool = true, patience: Duration = KeybagFile.patience
  ) -> UnlockAttempt {
    guard isCounted, secret.kind.takesPasscode else { return UnlockAttempt(isCounted: isCounted) }
    do throws(Errno) {
      return UnlockAttempt(
        aside: try AtomicFile(replacing: attemptsName, in: directory, patience: patience, overtakes: true))
    } catch {
      // There is no room, or no permission.
    }
    do throws(Errno) {
      let file = try directory.openAttempts(attemptsName)
      _ = try file.lock(until: MonotonicClock.now + patience)
      return UnlockAttempt(inPlace: file)
    } catch {
      return UnlockAttempt()
    }
  }

  /// Ends the count of wrong passcodes: those of a keybag that is no more say nothing. The file keeps its room.
  package func forgetAttempts() {
    do throws(Errno) {
      let file = try directory.openAttempts(attemptsName)
      try file.write(AttemptsRecord.blank)
      try file.truncate(to: UInt64(AttemptsRecord.size))
      // A power cut must not bring the count back: the next slip might be the one that erases the store.
      try file.synchronize()
    } catch {
      try? directory.unlink(attemptsName)
    }
  }

  /// Makes the file of wrong passcodes while there is room for it, so that they are counted also when there is none.
  /// What cannot be made now is made by the next wrong passcode, or the next mount.
  package func reserveAttempts() {
    // One that is too long is malformed: zeros take its place.
    if let status = try? directory.status(of: attemptsName), status.size > UInt64(AttemptsRecord.size) {
      forgetAttempts()
    }
    guard !hasRoomForAttempts,
      var file = try? AtomicFile(
        replacing: attemptsName, in: directory, patience: Self.patience, overtakes: true),
      !hasRoomForAttempts
    else { return }
    try? unsafe AttemptsRecord.blank.withBytes { (bytes) throws(Errno) in try unsafe file.commit(bytes) }
  }

  private var hasRoomForAttempts: Bool {
    guard let status = try? directory.status(of: attemptsName) else { return false }
    return status.type == .regular && status.size >= UInt64(AttemptsRecord.size)
  }
}

extension Descriptor {
  /// The record of wrong passcodes in a store's own directory, to be written over.
  fileprivate func openAttempts(_ name: PathName) throws(Errno) -> Descriptor {
    let file = try open(name, [.readWrite, .noFollow, .nonBlocking])
    guard try file.status().type == .regular else { throw .invalidArgument }
    return file
  }
}
