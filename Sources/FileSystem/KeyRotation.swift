import Cryptography
import DataProtectionCore
import LinuxIO
import StoreFormat
import Synchronization
import SystemPackage

/// How far a rotation has come.
package struct RotationProgress: Sendable, Equatable {
  /// Files looked at.
  package var files = 0
  /// Files whose keys were wrapped anew.
  package var rewrapped = 0
  /// Files whose records or keys are damaged, so that nobody can open them.
  package var damaged = 0

  package init() {}
}

/// Wraps the keys of all files of a class under its current key, while the store is in use.
///
/// It goes through the backing tree. That no file is missed, though files come, go and move meanwhile, is seen to thus:
/// - Whoever wraps a key and writes it into a record holds ``ProtectedFileSystem/keyChanges`` shared. It is taken alone
///   once after the class has its new key: from then on no record with the old one comes into being.
/// - What is renamed or linked meanwhile is noted in ``ProtectedFileSystem/moves``, and looked at after the tree: it may have come from where this had not
///   been yet, to where it had.
/// - Open files without a name are found in the table of open files.
package final class KeyRotation {
  private let fileSystem: ProtectedFileSystem
  private let fileClass: ProtectionClass
  private let mayContinue: () -> Bool
  private var progress = RotationProgress()
  private let report: (RotationProgress) -> Bool

  /// - Parameters:
  ///   - mayContinue: asked before each file; a lock ends the rotation at once.
  ///   - report: told of each directory; may end the rotation too.
  package init(
    _ fileSystem: ProtectedFileSystem, of fileClass: ProtectionClass, mayContinue: @escaping () -> Bool,
    report: @escaping (RotationProgress) -> Bool
  ) {
    self.fileSystem = fileSystem
    self.fileClass = fileClass
    self.mayContinue = mayContinue
    self.report = report
  }

  /// Goes through all files. When it returns, no record of the class names another than the current key.
  ///
  /// - Throws: `EINTR` when it was ended, `EACCES` when the class was locked, what the backing store fails with. The rest
  ///   is then for the next rotation.
  package func run() throws(Errno) -> RotationProgress {
    fileSystem.moves.begin()
    defer { fileSystem.moves.end() }
    fileSystem.keyChanges.write {}
    try visit([fileSystem.nodes.root])
    try visitLostAndFound()
    try renewOpenFiles()
    while let moved = nextMoved() { try visit(moved) }
    _ = report(progress)
    return progress
  }

  /// A name that came to be meanwhile. With renames and links held off, so that none is done and not noted yet.
  private func nextMoved() -> Node.Location? {
    fileSystem.renames.write { fileSystem.moves.next() }
  }

  /// Brings open files up to date that were opened with the old record at the last moment. After the old key is gone.
  package func finish() throws(Errno) { try renewOpenFiles() }

  // MARK: The tree

  private func visit(_ directories: [Node]) throws(Errno) {
    var waiting = directories
    while let directory = waiting.popLast() {
      let handle: SharedDescriptor
      let stream: Descriptor
      do throws(Errno) {
        handle = try fileSystem.directoryHandle(directory)
        stream = try fileSystem.openForListing(handle)
      } catch {
        // Removed, or moved: then it was noted.
        guard error == .staleNFSFileHandle || error == .noSuchFileOrDirectory else { throw error }
        continue
      }
      while true {
        let names = try stream.nextNames()
        if names.isEmpty { break }
        for name in names where !(directory.isRoot && name.description == NameEncoding.storeDirectory) {
          if let below = try visit(name, in: handle.descriptor, Node.Location(parent: directory, name: name)) {
            waiting.append(below)
          }
        }
      }
      guard report(progress) else { throw .interrupted }
    }
  }

  private func visit(_ location: Node.Location) throws(Errno) {
    do throws(Errno) {
      let handle = try fileSystem.directoryHandle(location.parent)
      if let below = try visit(location.name, in: handle.descriptor, location) { try visit([below]) }
    } catch {
      guard error == .staleNFSFileHandle || error == .noSuchFileOrDirectory else { throw error }
    }
  }

  /// Looks at a name; returns it when it is a directory.
  private func visit(
    _ name: PathName, in directory: borrowing Descriptor, _ location: Node.Location
  ) throws(Errno) -> Node? {
    let status: Status
    do throws(Errno) {
      status = try directory.status(of: name)
    } catch {
      // Removed, or renamed, since it was listed.
      if error == .noSuchFileOrDirectory { return nil } else { throw error }
    }
    switch status.type {
    case .directory: return fileSystem.nodes.find(status) ?? Node(status, location: location)
    case .regular:
      let node = fileSystem.nodes.find(status) ?? Node(status, location: location)
      try rewrap(name, in: directory, node)
      return nil
    default: return nil
    }
  }

  /// What a check took out of the tree has records too.
  private func visitLostAndFound() throws(Errno) {
    let store = try fileSystem.root.descriptor.open(PathName(NameEncoding.storeDirectory), [.path, .directory])
    do throws(Errno) {
      _ = try store.status(of: "lost+found")
    } catch {
      if error == .noSuchFileOrDirectory { return } else { throw error }
    }
    try visitPlain(SharedDescriptor(try store.open("lost+found", [.path, .directory, .noFollow])))
  }

  private func visitPlain(_ directory: SharedDescriptor) throws(Errno) {
    let stream = try fileSystem.openForListing(directory)
    while true {
      let names = try stream.nextNames()
      if names.isEmpty { return }
      for name in names {
        let status = try directory.descriptor.status(of: name)
        if status.type == .directory {
          try visitPlain(SharedDescriptor(try directory.descriptor.open(name, [.path, .directory, .noFollow])))
        } else if status.type == .regular {
          try rewrap(name, in: directory.descriptor, Node(status, location: nil))
        }
      }
    }
  }

  // MARK: Files

  private func rewrap(_ name: PathName, in directory: borrowing Descriptor, _ node: Node) throws(Errno) {
    guard mayContinue() else { throw .interrupted }
    progress.files += 1
    let path: Descriptor
    do throws(Errno) {
      path = try directory.open(name, [.path, .noFollow])
    } catch {
      if error == .noSuchFileOrDirectory { return } else { throw error }
    }
    try rewrap(path, node)
  }

  /// Replaces a file's record, and then what is in memory of it.
  private func rewrap(_ descriptor: borrowing Descriptor, _ node: Node) throws(Errno) {
    try fileSystem.keyChanges.write { () throws(Errno) in
      guard let old = try storedRecord(of: descriptor, node), old.fileClass == fileClass else { return }
      guard let new = try rewrapped(old) else { return }
      try fileSystem.setRecord(new.bytes, of: descriptor)
      progress.rewrapped += 1
      fileSystem.nodes.find(try descriptor.status()).map(fileSystem.renewRecordInMemory)
    }
  }

  /// The record on disk; `nil` for a file that has none yet, and for one that is damaged.
  private func storedRecord(of descriptor: borrowing Descriptor, _ node: Node) throws(Errno) -> FileRecord? {
    let bytes: [UInt8]
    do throws(Errno) {
      bytes = try fileSystem.lendingPermissions(of: descriptor) { () throws(Errno) in
        try PathName(descriptor: descriptor).attribute(ProtectedFileSystem.recordAttribute)
      }
    } catch {
      if error == .noData { return nil } else { throw error }
    }
    return try countingDamage { () throws(Errno) in try fileSystem.verifiedFileRecord(bytes, of: node) }
  }

  /// What `body` makes of a record; `nil` for one that is damaged. All else that fails ends the rotation: the file may be
  /// whole, and would be lost with the old key.
  private func countingDamage<Result: ~Copyable>(_ body: () throws(Errno) -> Result) throws(Errno) -> Result? {
    do throws(Errno) {
      return try body()
    } catch {
      guard error == .ioError else { throw error }
      progress.damaged += 1
      return nil
    }
  }

  /// The record under the current key; `nil` when it is already, when its key is none any more, and when it is damaged.
  private func rewrapped(_ record: FileRecord) throws(Errno) -> FileRecord? {
    guard !fileSystem.controller.isCurrent(record) else { return nil }
    do throws(Errno) {
      try fileSystem.controller.requireKey(of: record)
    } catch {
      return nil
    }
    let unwrapped = try countingDamage { () throws(Errno) in try fileSystem.controller.fileKey(of: record) }
    guard let key = unwrapped else { return nil }
    let (generation, wrappedKey) = try fileSystem.controller.wrap(key, for: record.fileClass)
    return try fileSystem.fileRecord(
      record.fileClass, isExplicit: record.isExplicit, generation: generation, wrappedKey: wrappedKey)
  }

  private func renewOpenFiles() throws(Errno) {
    for node in fileSystem.nodes.openNodes(in: fileClass) {
      guard let file = node.file, !fileSystem.controller.isCurrent(file.record) else { continue }
      try file.withDescriptor { (descriptor) throws(Errno) in try rewrap(descriptor, node) }
      fileSystem.renewRecordInMemory(of: node)
    }
  }
}

extension ProtectedFileSystem {
  /// Takes the record on disk for an open file, and has those who are about to open it read it again.
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
