import CProtectfsIO
import Glibc
import SystemPackage

/// A file that is replaced as a whole: whoever reads it, and whatever crash comes between, finds the old or the new one.
///
/// The new content is written aside, under the name with `.new` added, and made durable before it takes the name
/// (fsync(2), rename(2), fsync of the directory). The file aside is locked, so that of several writers one at a time
/// gets from ``init(replacing:in:mode:overtaking:)`` to ``commit(_:keepingPreviousAs:mayReplace:)`` and can rely on what it read
/// in between. A file aside that a crash left behind is used again.
package struct AtomicFile: ~Copyable {
  private let directory: Descriptor
  private let file: Descriptor
  private let name: PathName
  private let aside: PathName
  private let mode: UInt32
  /// The new content has the name. Where ``commit(_:keepingPreviousAs:mayReplace:)`` failed after that, a power cut may
  /// still bring the old one back.
  package private(set) var isCommitted = false

  /// Begins to replace a file in a directory; waits for another writer to end.
  ///
  /// - Parameter patience: how long one other writer may take; the file aside is then another, and that writer's
  ///   ``commit(_:keepingPreviousAs:mayReplace:)`` fails. `nil` for as long as it takes.
  /// - Throws: `EWOULDBLOCK` when that other file is locked again.
  package init(
    replacing name: PathName, in directory: borrowing Descriptor, mode: UInt32 = 0o600,
    overtaking patience: Duration? = nil
  ) throws(Errno) {
    let aside = Self.asideName(of: name)
    let own = try directory.open(".", [.readOnly, .directory])
    let file = try Self.openAndLock(aside, in: own, mode: mode, patience: patience)
    self.name = name
    self.mode = mode
    self.aside = aside
    self.directory = own
    self.file = file
  }

  deinit {
    if !isCommitted, (try? isNamed()) == true {
      // The file aside is of no use to anyone; if it stays, the next writer takes it.
      try? directory.unlink(aside)
    }
  }

  /// Writes the new content and gives it the name.
  ///
  /// - Parameters:
  ///   - previous: a name for the old content, whose own old content is given up. Neither name ever goes missing.
  ///   - mayReplace: when false, a file that is there already makes this fail with `EEXIST`.
  /// - Throws: `ESTALE` when another writer did not wait for this one to end.
  package mutating func commit(
    _ bytes: UnsafeRawBufferPointer, keepingPreviousAs previous: PathName? = nil, mayReplace: Bool = true
  ) throws(Errno) {
    try file.truncate(to: 0)
    try unsafe file.write(bytes, at: 0)
    try file.setMode(mode)
    try file.synchronize()
    if let previous { try keep(as: previous) }
    guard try isNamed() else { throw .staleNFSFileHandle }
    try directory.rename(aside, to: name, in: directory, flags: mayReplace ? [] : .noReplace)
    isCommitted = true
    try directory.synchronize()
  }

  /// A link(2) replaces nothing, so the content gets a name aside that then replaces the previous one's. Not the one that
  /// a writer of `previous` opens: what it writes would be this content's.
  private func keep(as previous: PathName) throws(Errno) {
    let link = Self.linkName(of: previous)
    try ignoringAbsence { () throws(Errno) in try directory.unlink(link) }
    do throws(Errno) {
      try directory.link(name, to: link, in: directory)
    } catch .noSuchFileOrDirectory {
      // There is nothing to be kept yet.
      return try ignoringAbsence { () throws(Errno) in try directory.unlink(previous) }
    }
    try directory.rename(link, to: previous, in: directory)
    // A crash after this step has left two names of one file: between them rename(2) does nothing.
    try ignoringAbsence { () throws(Errno) in try directory.unlink(link) }
    try directory.synchronize()
  }

  /// The names, beside the file's own, that a crash may leave.
  package static func leftovers(of name: PathName, previous: PathName) -> [PathName] {
    [asideName(of: name), asideName(of: previous), linkName(of: previous)]
  }

  private static func asideName(of name: PathName) -> PathName {
    PathName(bytes: Array(name.bytes) + Array(".new".utf8))
  }

  private static func linkName(of name: PathName) -> PathName {
    PathName(bytes: Array(name.bytes) + Array(".link".utf8))
  }

  private func ignoringAbsence(_ body: () throws(Errno) -> Void) throws(Errno) {
    do throws(Errno) {
      try body()
    } catch .noSuchFileOrDirectory {
      // There is nothing to be removed.
    }
  }

  /// Whether the name aside is still that of this writer's file.
  private func isNamed() throws(Errno) -> Bool { try Self.isNamed(file, aside, in: directory) }

  private static func isNamed(
    _ file: borrowing Descriptor, _ aside: PathName, in directory: borrowing Descriptor
  ) throws(Errno) -> Bool {
    let own = try file.status()
    do throws(Errno) {
      let named = try directory.status(of: aside)
      return named.inode == own.inode && named.device == own.device
    } catch .noSuchFileOrDirectory {
      return false
    }
  }

  /// The file aside, locked. The one opened may have been given its final name while this waited: then again.
  private static func openAndLock(
    _ aside: PathName, in directory: borrowing Descriptor, mode: UInt32, patience: Duration?
  ) throws(Errno) -> Descriptor {
    var hasOvertaken = false
    while true {
      let file = try directory.open(aside, [.writeOnly, .create, .noFollow], mode: mode)
      let isLocked: Bool
      if let patience {
        isLocked = try file.lock(until: .now + patience)
      } else {
        try file.lock()
        isLocked = true
      }
      // Where that is not so, another writer has just finished.
      guard try isNamed(file, aside, in: directory) else { continue }
      if isLocked { return file }
      if hasOvertaken { throw .wouldBlock }
      try directory.unlink(aside)
      hasOvertaken = true
    }
  }
}

extension Descriptor {
  /// Waits for a lock that others who ask for it respect, and that goes with the descriptor (flock(2), `LOCK_EX`).
  package func lock() throws(Errno) {
    while true {
      let result = linux_flock(rawValue, LOCK_EX)
      if result == -EINTR { continue }
      _ = try check(result)
      return
    }
  }

  /// The same, until a point in time; returns whether the lock was had by then.
  package func lock(until deadline: ContinuousClock.Instant) throws(Errno) -> Bool {
    while true {
      do throws(Errno) {
        try lock(isShared: false)
        return true
      } catch {
        guard error == .wouldBlock else { throw error }
        if ContinuousClock.now >= deadline { return false }
        Thread.sleep(microseconds: 10_000)
      }
    }
  }
}
