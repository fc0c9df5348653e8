import Cryptography
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

/// The progress of a rotation.
package struct RotationProgress: Sendable, Equatable {
  /// Files examined.
  package var files = 0
  /// Files whose keys were wrapped again.
  package var rewrapped = 0
  /// Files whose records or keys are damaged, so that they cannot be opened.
  package var damaged = 0
  /// Files whose records cannot be replaced, or are those of a newer version, and directories that cannot be searched,
  /// for a permanent reason. The old class key is still needed.
  package var kept = 0

  package init() {}
}

/// Wraps the keys of all files of a class under its current key, while the store is in use.
///
/// The rotation walks the backing tree. It misses no file, although files are created, removed and moved meanwhile:
/// - A thread that wraps a key and writes it into a record holds ``BackingTree/keyChanges`` shared. The rotation takes
///   it exclusively once, after the class has its new key. From then on, no record with the old key is created.
/// - Names that are renamed or linked meanwhile are visited after the tree (``BackingTree/walkMoved(_:)``).
/// - Files without a name are found in the table of nodes: those that are open, and those that their node keeps open.
package final class KeyRotation: TreeVisitor {
  private let tree: BackingTree
  private let fileClass: ProtectionClass
  private let mayContinue: () -> Bool
  private var progress = RotationProgress()
  private let report: (RotationProgress) -> Bool
  /// The inode numbers of the files counted in ``RotationProgress/kept``.
  private var kept: Set<UInt64> = []

  /// - Parameters:
  ///   - mayContinue: called before each file. A lock ends the rotation at once.
  ///   - report: called for each directory. It may end the rotation too.
  package init(
    _ tree: BackingTree, of fileClass: ProtectionClass, mayContinue: @escaping () -> Bool,
    report: @escaping (RotationProgress) -> Bool
  ) {
    self.tree = tree
    self.fileClass = fileClass
    self.mayContinue = mayContinue
    self.report = report
  }

  /// Visits all files. If it returns with none kept, every record of the class names the current key.
  ///
  /// - Throws: `EINTR` if the rotation was ended, `EACCES` if the class was locked, or the error of the backing store.
  ///   The next rotation does the rest.
  package func run() throws(Errno) -> RotationProgress {
    // Waits for the end of the search for pending rekeys.
    while !tree.moves.begin() {
      guard mayContinue() else { throw .interrupted }
      MonotonicClock.sleep(microseconds: 10_000)
    }
    defer { tree.moves.end() }
    tree.keyChanges.write {}
    try tree.walk(self, includingLostAndFound: true)
    try tree.walkMoved(self)
    // Last: a file that a walk has missed may have lost its name since.
    try renewKnownFiles()
    _ = report(progress)
    return progress
  }

  /// Updates files that were opened with the old record at the last moment. Called after the old key is gone.
  package func finish() throws(Errno) { try renewKnownFiles() }

  // MARK: The tree

  func goOn(isDirectoryDone: Bool) throws(Errno) {
    guard isDirectoryDone ? report(progress) : mayContinue() else { throw .interrupted }
  }

  func visit(_ name: PathName, in directory: SharedDescriptor, _ file: Node) throws(Errno) {
    progress.files += 1
    let path: SharedDescriptor?
    do throws(Errno) {
      path = try keeping(file) { () throws(Errno) in
        try tree.ownerPermissions.ensuring(on: directory.descriptor) { () throws(Errno) in
          SharedDescriptor(try directory.descriptor.open(name, [.path, .noFollow]))
        }
      }
    } catch {
      if error == .noSuchFileOrDirectory { return } else { throw error }
    }
    if let path { try rewrap(path.descriptor, file) }
  }

  /// Replaces a file's record on disk, then in memory.
  private func rewrap(_ descriptor: borrowing Descriptor, _ node: Node) throws(Errno) {
    let isOfClass = try tree.keyChanges.write { () throws(Errno) in
      guard let old = try storedRecord(of: descriptor, node), old.fileClass == fileClass else { return false }
      guard let new = try rewrapped(old) else { return true }
      let written: Void? = try keeping(node) { () throws(Errno) in try tree.setRecord(new.bytes, of: descriptor) }
      guard written != nil else { return false }
      progress.rewrapped += 1
      // A record in memory that still has the old key may be written back by a rekey.
      if let known = tree.nodes.find(try descriptor.status()) { try tree.renewRecordInMemory(of: known) }
      return true
    }
    // Also one that has the new key from a rotation that was ended.
    guard isOfClass, !tree.isSynchronizedWhole else { return }
    _ = try keeping(node) { () throws(Errno) in
      do throws(Errno) { try tree.synchronize(descriptor) } catch {
        // Removed meanwhile.
        guard error.isOfARemovedFile else { throw error }
      }
    }
  }

  /// The record on disk; `nil` for a file that has none yet, whose record is damaged or has an unknown version, or that
  /// may not be read.
  private func storedRecord(of descriptor: borrowing Descriptor, _ node: Node) throws(Errno) -> FileRecord? {
    let read: [UInt8]?
    do throws(Errno) {
      read = try keeping(node) { () throws(Errno) in
        try tree.recordBytes(of: descriptor)
      }
    } catch {
      if error == .noData { return nil } else { throw error }
    }
    guard let bytes = read else { return nil }
    if FileRecord.hasUnknownVersion(bytes, hasMarks: tree.options.layout.isAuthenticated) {
      keep(node, "its record has a version that is not known")
      return nil
    }
    let record = try countingDamage { () throws(Errno) in
      try tree.verifiedFileRecord(bytes, of: node, descriptor)
    }
    // It may be right, and the length wrong: whoever puts that right needs the key.
    if record == nil, tree.options.layout.isAuthenticated, FileRecord.isClean(bytes) {
      keep(node, "its record, or its length, was changed")
    }
    return record
  }

  /// The result of `body` on a file or directory. `nil` if permission is denied and will be denied the next time too,
  /// as for an immutable file or another user's. The log names the file once, and the rotation continues with all
  /// others.
  ///
  /// Not for calls that may fail because a class was locked.
  private func keeping<Result>(_ node: Node, _ body: () throws(Errno) -> Result) throws(Errno) -> Result? {
    do throws(Errno) {
      return try body()
    } catch {
      try failed(error, at: node)
      return nil
    }
  }

  func failed(_ error: Errno, at node: Node) throws(Errno) {
    guard [.permissionDenied, .notPermitted, .readOnlyFileSystem, .improperLink].contains(error) else { throw error }
    keep(node, "\(error)")
  }

  /// Counts a file or directory for which the old class key is kept.
  private func keep(_ node: Node, _ reason: String) {
    if kept.insert(node.identity.inode).inserted, kept.count <= Self.mostNamed {
      tree.log.error(
        "\(node.isDirectory ? "a directory cannot be searched" : "a file cannot be given the new class key"): \(reason)",
        metadata: ["backing": "\(tree.backingPath(of: node))", "inode": "\(node.identity.inode)"])
    }
    progress.kept = kept.count
  }

  /// The maximum number of files named in the log. On a read-only backing file system, all files fail.
  private static let mostNamed = 1000

  /// The result of `body` on a record; `nil` if the record is damaged. Any other failure ends the rotation: the file
  /// may be intact and would be lost with the old key.
  private func countingDamage<Result: ~Copyable>(_ body: () throws(Errno) -> Result) throws(Errno) -> Result? {
    do throws(Errno) {
      return try body()
    } catch {
      guard error == .ioError else { throw error }
      progress.damaged += 1
      return nil
    }
  }

  /// The record under the current key; `nil` if it is already, if its class key was removed, or if it is damaged.
  private func rewrapped(_ record: FileRecord) throws(Errno) -> FileRecord? {
    guard !tree.controller.isCurrent(record) else { return nil }
    do throws(Errno) {
      try tree.controller.requireKey(of: record)
    } catch {
      return nil
    }
    let unwrapped = try countingDamage { () throws(Errno) in try tree.controller.fileKey(of: record) }
    guard let key = unwrapped else { return nil }
    return try tree.tagged(tree.wrapped(key, for: record.fileClass, in: record))
  }

  /// Renews the records of files that are open, or have no name. Throws the last error.
  private func renewKnownFiles() throws(Errno) {
    var failure: Errno?
    for node in tree.nodes.openOrUnlinked() {
      do throws(Errno) { try renew(node) } catch { failure = error }
    }
    if let failure { throw failure }
  }

  private func renew(_ node: Node) throws(Errno) {
    guard let file = node.file else {
      if let kept = node.state.withLock({ $0.unlinked }) { try rewrap(kept.descriptor, node) }
      return
    }
    guard !tree.controller.isCurrent(file.record) else { return }
    try file.withDescriptor { (descriptor) throws(Errno) in try rewrap(descriptor, node) }
    do throws(Errno) {
      try tree.renewRecordInMemory(of: node)
    } catch {
      // A damaged record is no reason to keep the old key.
      guard error == .ioError else { throw error }
    }
  }
}

extension BackingTree {
  /// Replaces an open file's record by the one on disk. Threads that are about to open the file read it again.
  ///
  /// - Throws: what the backing store fails with; `EIO` for a damaged record.
  func renewRecordInMemory(of node: Node) throws(Errno) {
    let file = node.state.withLock { state in
      state.classChanges &+= 1
      return state.file
    }
    guard let file else { return }
    do throws(Errno) {
      try renewRecord(of: file, node)
    } catch {
      damaged(node, "its record cannot be read again: \(error)")
      throw error
    }
  }
}
