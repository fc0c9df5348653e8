import ProtectfsIO
import StoreFormat
import SystemPackage

// One writer at a time, in all processes: who looks at the keybag and then changes it, or what belongs to it, finds it
// as it was. The lock is flock(2) on the keybag itself, which the next keybag carries on: it is locked before it is in
// its place.
extension KeybagFile {
  /// How long writers and unlock attempts wait for those of other processes: longer than any of them takes.
  package static let patience = Duration.seconds(5)

  /// A keybag that is to take the place of the one that is there. No other writer is at work until this ends.
  struct Replacement: ~Copyable {
    var file: AtomicFile
    /// The keybag that is there, locked. It is closed before it is replaced: NFS keeps a file that is open under
    /// another name, in a step of its own, after which there is no keybag for a moment.
    var current: Descriptor?
  }

  /// The locks of a writer who replaces nothing.
  struct WritersLock: ~Copyable {
    let next: AtomicFile?
    let current: Descriptor?
  }

  /// Begins to replace the keybag.
  ///
  /// - Throws: `keybagInUse`, `keybagUnwritable`.
  func beginReplacement() throws(KeyManagementError) -> Replacement {
    try writing { () throws(Errno) in
      let deadline = MonotonicClock.now + patience
      let file = try AtomicFile(replacing: Self.name, in: directory, patience: patience)
      return Replacement(file: file, current: try lockCurrent(until: deadline))
    }
  }

  /// Keeps other writers away while the result exists: also one who is about to put the next keybag in its place, and
  /// has let go of this one. Where the next one's file cannot be made, there is none either, and so no such writer.
  ///
  /// - Throws: `EWOULDBLOCK` where another writer has not finished in time.
  func lockBoth() throws(Errno) -> WritersLock {
    let deadline = MonotonicClock.now + patience
    var next: AtomicFile?
    do throws(Errno) {
      next = try AtomicFile(replacing: Self.name, in: directory, patience: patience)
    } catch {
      if error == .wouldBlock { throw error }
    }
    return WritersLock(next: next, current: try lockCurrent(until: deadline))
  }

  /// Keeps other writers away while the result exists, without writing anything. `nil` where there is no keybag that
  /// could be locked.
  ///
  /// - Throws: `EWOULDBLOCK` where another writer has not finished by then.
  func lockCurrent(until deadline: ContinuousClock.Instant) throws(Errno) -> Descriptor? {
    while true {
      guard let file = try? directory.open(Self.name, [.readWrite, .noFollow, .nonBlocking]) else { return nil }
      guard try file.lock(until: deadline) else { throw .wouldBlock }
      // Otherwise who had it has put another one in its place.
      if let named = try? directory.status(of: Self.name), named.inode == (try file.status().inode) { return file }
    }
  }
}
