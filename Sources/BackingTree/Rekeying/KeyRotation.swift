import Cryptography
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import SystemPackage

/// The progress of a rotation.
package struct RotationProgress: Sendable, Equatable {
  /// Files examined.
  package var files = 0
  /// Files whose keys were wrapped again.
  package var rewrapped = 0
  /// Files whose records or keys are damaged, so that they cannot be opened.
  package var damaged = 0
  /// Files whose records cannot be replaced and directories that cannot be searched, for a permanent reason. The old
  /// class key is still needed.
  package var kept = 0

  package init() {}
}

/// Wraps the keys of all files of a class under its current key, while the store is in use.
///
/// The rotation walks the backing tree. It misses no file, although files are created, removed and moved meanwhile:
/// - A thread that wraps a key and writes it into a record holds ``BackingTree/keyChanges`` shared. The rotation takes
///   it exclusively once, after the class has its new key. From then on, no record with the old key is created.
/// - Names that are renamed or linked meanwhile are recorded in ``BackingTree/moves`` and visited after the tree: they
///   may have moved from a place not yet visited to one that was.
/// - Open files without a name are found in the table of open files.
package final class KeyRotation {
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
      Thread.sleep(microseconds: 10_000)
    }
    defer { tree.moves.end() }
    tree.keyChanges.write {}
    try visit([tree.nodes.root])
    try visitLostAndFound()
    try renewOpenFiles()
    while let moved = nextMoved() { try visit(moved) }
    _ = report(progress)
    return progress
  }

  /// A name that appeared meanwhile. Renames and links are held off, so none is complete but not recorded.
  private func nextMoved() -> Node.Location? {
    tree.renames.write { tree.moves.next() }
  }

  /// Updates files that were opened with the old record at the last moment. Called after the old key is gone.
  package func finish() throws(Errno) { try renewOpenFiles() }

  // MARK: The tree

  private func visit(_ directories: [Node]) throws(Errno) {
    var waiting = directories
    while let directory = waiting.popLast() {
      let opened: (handle: SharedDescriptor, stream: SharedDescriptor)?
      do throws(Errno) {
        opened = try keeping(directory) { () throws(Errno) in
          let handle = try tree.directoryHandle(directory)
          return (handle, SharedDescriptor(try tree.openForListing(handle)))
        }
      } catch {
        // The directory was removed, or moved and then recorded.
        guard error == .staleNFSFileHandle || error == .noSuchFileOrDirectory else { throw error }
        continue
      }
      guard let (handle, stream) = opened else { continue }
      while true {
        let names = try stream.descriptor.nextNames()
        if names.isEmpty { break }
        for name in names where !(directory.isRoot && name.description == NameEncoding.storeDirectory) {
          if let below = try visit(name, in: handle, Node.Location(parent: directory, name: name)) {
            waiting.append(below)
          }
        }
      }
      guard report(progress) else { throw .interrupted }
    }
  }

  private func visit(_ location: Node.Location) throws(Errno) {
    do throws(Errno) {
      let handle = try keeping(location.parent) { () throws(Errno) in try tree.directoryHandle(location.parent) }
      if let handle, let below = try visit(location.name, in: handle, location) { try visit([below]) }
    } catch {
      guard error == .staleNFSFileHandle || error == .noSuchFileOrDirectory else { throw error }
    }
  }

  /// Visits a name. Returns its node if it is a directory.
  private func visit(
    _ name: PathName, in directory: SharedDescriptor, _ location: Node.Location
  ) throws(Errno) -> Node? {
    let found: Status?
    do throws(Errno) {
      found = try searching(directory, location.parent) { () throws(Errno) in try directory.descriptor.status(of: name)
      }
    } catch {
      // Removed or renamed since it was listed.
      if error == .noSuchFileOrDirectory { return nil } else { throw error }
    }
    guard let status = found else { return nil }
    switch status.type {
    case .directory: return tree.nodes.find(status) ?? Node(status, location: location)
    case .regular:
      let node = tree.nodes.find(status) ?? Node(status, location: location)
      try rewrap(name, in: directory, location.parent, node)
      return nil
    default: return nil
    }
  }

  /// Files that a check moved out of the tree have records too.
  private func visitLostAndFound() throws(Errno) {
    let store = try tree.root.descriptor.open(PathName(NameEncoding.storeDirectory), [.path, .directory])
    do throws(Errno) {
      _ = try store.status(of: "lost+found")
    } catch {
      if error == .noSuchFileOrDirectory { return } else { throw error }
    }
    try visitPlain(SharedDescriptor(try store.open("lost+found", [.path, .directory, .noFollow])))
  }

  private func visitPlain(_ directory: SharedDescriptor) throws(Errno) {
    let node = Node(try directory.descriptor.status(), location: nil)
    let opened = try keeping(node) { () throws(Errno) in SharedDescriptor(try tree.openForListing(directory)) }
    guard let stream = opened else { return }
    while true {
      let names = try stream.descriptor.nextNames()
      if names.isEmpty { return }
      for name in names {
        let found = try searching(directory, node) { () throws(Errno) in try directory.descriptor.status(of: name) }
        guard let status = found else { continue }
        if status.type == .directory {
          let below = try searching(directory, node) { () throws(Errno) in
            SharedDescriptor(try directory.descriptor.open(name, [.path, .directory, .noFollow]))
          }
          if let below { try visitPlain(below) }
        } else if status.type == .regular {
          try rewrap(name, in: directory, node, Node(status, location: nil))
        }
      }
    }
  }

  // MARK: Files

  private func rewrap(
    _ name: PathName, in directory: SharedDescriptor, _ parent: Node, _ node: Node
  ) throws(Errno) {
    guard mayContinue() else { throw .interrupted }
    progress.files += 1
    let path: SharedDescriptor?
    do throws(Errno) {
      path = try searching(directory, parent) { () throws(Errno) in
        SharedDescriptor(try directory.descriptor.open(name, [.path, .noFollow]))
      }
    } catch {
      if error == .noSuchFileOrDirectory { return } else { throw error }
    }
    if let path { try rewrap(path.descriptor, node) }
  }

  /// Replaces a file's record on disk, then in memory.
  private func rewrap(_ descriptor: borrowing Descriptor, _ node: Node) throws(Errno) {
    try tree.keyChanges.write { () throws(Errno) in
      guard let old = try storedRecord(of: descriptor, node), old.fileClass == fileClass else { return }
      guard let new = try rewrapped(old) else { return }
      let written: Void? = try keeping(node) { () throws(Errno) in try tree.setRecord(new.bytes, of: descriptor) }
      guard written != nil else { return }
      progress.rewrapped += 1
      tree.nodes.find(try descriptor.status()).map(tree.renewRecordInMemory)
    }
  }

  /// The record on disk; `nil` for a file that has none yet, whose record is damaged, or that may not be read.
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
    return try countingDamage { () throws(Errno) in try tree.verifiedFileRecord(bytes, of: node) }
  }

  /// The result of `body` in a directory of the backing tree, with temporary search permission if its mode lacks that.
  private func searching<Result>(
    _ directory: SharedDescriptor, _ node: Node, _ body: () throws(Errno) -> Result
  ) throws(Errno) -> Result? {
    try keeping(node) { () throws(Errno) in try tree.lendingPermissions(of: directory.descriptor, body) }
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
      guard [.permissionDenied, .notPermitted, .readOnlyFileSystem].contains(error) else { throw error }
      if kept.insert(node.identity.inode).inserted, kept.count <= Self.mostNamed {
        tree.log.error(
          "\(node.isDirectory ? "a directory cannot be gone through" : "a file cannot be given the new class key"): \(error)",
          metadata: ["backing": "\(tree.backingPath(of: node))", "inode": "\(node.identity.inode)"])
      }
      progress.kept = kept.count
      return nil
    }
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
    let (keyID, wrappedKey) = try tree.controller.wrap(key, for: record.fileClass)
    return try tree.fileRecord(
      record.fileClass, isExplicit: record.isExplicit, classKeyID: keyID, wrappedKey: wrappedKey,
      pending: record.pending)
  }

  private func renewOpenFiles() throws(Errno) {
    for node in tree.nodes.openNodes(in: fileClass) {
      guard let file = node.file, !tree.controller.isCurrent(file.record) else { continue }
      try file.withDescriptor { (descriptor) throws(Errno) in try rewrap(descriptor, node) }
      tree.renewRecordInMemory(of: node)
    }
  }
}

extension BackingTree {
  /// Replaces an open file's record by the one on disk. Threads that are about to open the file read it again.
  func renewRecordInMemory(of node: Node) {
    let file = node.state.withLock { state in
      state.classChanges &+= 1
      return state.awaitsRecord ? nil : state.file
    }
    guard let file else { return }
    do throws(Errno) {
      try renewRecord(of: file, node)
    } catch {
      damaged(node, "its record cannot be read again: \(error)")
    }
  }
}
