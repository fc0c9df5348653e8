import SystemPackage

/// A file that is replaced as a whole: readers find the old or the new content, even after a crash.
///
/// The new content is written to another file, whose name has `.new` added, and made durable before it takes the name
/// (fsync(2), rename(2), fsync of the directory). That file is locked, so that only one writer at a time gets from
/// ``init(replacing:in:mode:patience:overtakes:)`` to ``commit(_:keepingPreviousAs:mayReplace:)``, and can rely on what
/// it read in between. A `.new` file that a crash left behind is used again.
package struct AtomicFile: ~Copyable {
  private let directory: Descriptor
  private let file: Descriptor
  private let name: PathName
  private let aside: PathName
  private let mode: UInt32
  /// The new content has the name. If ``commit(_:keepingPreviousAs:mayReplace:)`` failed after that, a power cut may
  /// still restore the old content.
  package private(set) var isCommitted = false

  /// Begins to replace a file in a directory. Waits for another writer to finish.
  ///
  /// - Parameters:
  ///   - patience: how long to wait for another writer; `nil` for no limit.
  ///   - overtakes: if `true`, a new `.new` file is used when that time has passed, and the other writer's
  ///     ``commit(_:keepingPreviousAs:mayReplace:)`` fails.
  /// - Throws: `EWOULDBLOCK` if another writer did not finish in time, or the new file is locked again.
  package init(
    replacing name: PathName, in directory: borrowing Descriptor, mode: UInt32 = 0o600,
    patience: Duration? = nil, overtakes: Bool = false
  ) throws(Errno) {
    let aside = Self.asideName(of: name)
    let own = try directory.open(".", [.readOnly, .directory])
    let file = try Self.openAndLock(aside, in: own, mode: mode, patience, overtakes)
    self.name = name
    self.mode = mode
    self.aside = aside
    self.directory = own
    self.file = file
  }

  deinit {
    if !isCommitted, (try? isNamed()) == true {
      // The `.new` file is not needed. If it cannot be removed, the next writer uses it.
      try? directory.unlink(aside)
    }
  }

  /// Writes the new content and gives it the name.
  ///
  /// - Parameters:
  ///   - previous: a name for the old content, which replaces what had this name. Neither name is missing at any time.
  ///   - mayReplace: if `false`, the call fails with `EEXIST` if the file exists.
  /// - Throws: `ESTALE` if another writer did not wait for this one.
  package mutating func commit(
    _ bytes: UnsafeRawBufferPointer, keepingPreviousAs previous: PathName? = nil, mayReplace: Bool = true
  ) throws(Errno) {
    try file.truncate(to: 0)
    try unsafe file.write(bytes, at: 0)
    try file.setMode(mode)
    try file.synchronize()
    if let previous { try keep(as: previous) }
    guard try isNamed() else { throw .staleNFSFileHandle }
    do throws(Errno) {
      try directory.rename(aside, to: name, in: directory, flags: mayReplace ? [] : .noReplace)
    } catch {
      // On a network file system, a call that fails may have been carried out.
      guard (try? Self.isNamed(file, name, in: directory)) == true else { throw error }
    }
    isCommitted = true
    try directory.synchronize()
  }

  /// link(2) does not replace a file, so the content first gets a temporary name, which then replaces `previous`. It is
  /// not the name that a writer of `previous` opens, since that writer would overwrite this content.
  private func keep(as previous: PathName) throws(Errno) {
    let link = Self.linkName(of: previous)
    try ignoringAbsence { () throws(Errno) in try directory.unlink(link) }
    do throws(Errno) {
      try directory.link(name, to: link, in: directory)
    } catch .noSuchFileOrDirectory {
      // There is no old content yet.
      return try ignoringAbsence { () throws(Errno) in try directory.unlink(previous) }
    }
    try directory.rename(link, to: previous, in: directory)
    // After a crash at this step, one file has two names, between which rename(2) does nothing.
    try ignoringAbsence { () throws(Errno) in try directory.unlink(link) }
    try directory.synchronize()
  }

  /// The names, besides the file's own, that a crash may leave.
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
      // There is nothing to remove.
    }
  }

  /// Whether the `.new` name still refers to this writer's file.
  private func isNamed() throws(Errno) -> Bool { try Self.isNamed(file, aside, in: directory) }

  private static func isNamed(
    _ file: borrowing Descriptor, _ aside: PathName, in directory: borrowing Descriptor
  ) throws(Errno) -> Bool {
    let own = try file.status()
    do throws(Errno) {
      return try directory.status(of: aside).isSame(as: own)
    } catch .noSuchFileOrDirectory {
      return false
    }
  }

  /// The locked `.new` file. While this waits, the opened file may get its final name; then the next one is opened.
  private static func openAndLock(
    _ aside: PathName, in directory: borrowing Descriptor, mode: UInt32, _ patience: Duration?, _ overtakes: Bool
  ) throws(Errno) -> Descriptor {
    var mayOvertake = overtakes
    while true {
      // Whoever may write the directory may have put a FIFO there, which is not waited for.
      let file = try directory.open(aside, [.writeOnly, .create, .noFollow, .nonBlocking], mode: mode)
      guard try file.status().type == .regular else { throw .invalidArgument }
      let isLocked: Bool
      if let patience {
        isLocked = try file.lock(until: MonotonicClock.now + patience)
      } else {
        try file.lock()
        isLocked = true
      }
      // If it is not named so, another writer has just finished.
      guard try isNamed(file, aside, in: directory) else { continue }
      if isLocked { return file }
      guard mayOvertake else { throw .wouldBlock }
      try directory.unlink(aside)
      mayOvertake = false
    }
  }
}
