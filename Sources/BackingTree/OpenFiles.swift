import FileProtection
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

// Open files and their nodes: one `ProtectedFile` an inode, shared by its handles.
extension BackingTree {
  /// Opens a node's file, or takes one more handle of it. The class is asked at every open.
  ///
  /// - Throws: `EKEYREVOKED` when the class key is no more, `ENOKEY` when another keybag has it, `EACCES` when the class is locked, `EIO` for a damaged record,
  ///   or what open(2) fails with.
  package func openFile(
    _ node: Node, forWriting: Bool, operation: ProtectionPolicy.Operation = .open
  ) throws(Errno) -> ProtectedFile {
    while true {
      let (known, classChanges) = node.state.withLock { state in
        if state.file != nil {
          state.handles += 1
          if forWriting { state.writers += 1 }
        }
        return (state.file, state.classChanges)
      }
      if let file = known {
        do throws(Errno) {
          if options.isShared { try renewRecord(of: file, node) }
          try requireKey(of: file, node)
          guard controller.allows(operation, on: file.fileClass) else { throw .permissionDenied }
          try fetchKey(of: file, for: operation)
          if forWriting { try prepareForWriting(file, node) }
          return file
        } catch {
          close(file, of: node, wasWriter: forWriting)
          throw error
        }
      }
      try requireNotDenied(operation, on: node)
      let (file, awaitsRecord) = try loadFile(node, operation: operation)
      let key = file.wrappingKey
      node.state.withLock { state in
        guard state.file == nil, state.classChanges == classChanges else { return }
        state.awaitsRecord = awaitsRecord
        state.cache(key)
        state.file = file
        openFiles.add(file)
      }
      // Someone else may have been first: the next round takes what is there.
    }
  }

  /// Finds out that the class key of an open file still exists. Its record may be the one from before a rotation.
  private func requireKey(of file: ProtectedFile, _ node: Node) throws(Errno) {
    do throws(Errno) {
      try controller.requireKey(of: file.record)
    } catch {
      try renewRecord(of: file, node)
      try controller.requireKey(of: file.record)
    }
  }

  /// The same of a file that is about to be opened. That another keybag opens it is for the administrator.
  private func requireKey(of record: FileRecord, _ node: Node) throws(Errno) {
    do throws(Errno) {
      try controller.requireKey(of: record)
    } catch {
      if error == .noKey {
        log.error(
          "a file is under a class key that the keybag does not have; the keybag that has it opens the file",
          metadata: [
            "backing": "\(backingPath(of: node))", "class": "\(record.fileClass.name)",
            "key": "\(record.classKeyID)",
          ])
      }
      throw error
    }
  }

  /// Takes the record that is there now: others may have changed the class.
  func renewRecord(of file: ProtectedFile, _ node: Node) throws(Errno) {
    guard !node.state.withLock({ $0.awaitsRecord }) else { return }
    do throws(Errno) {
      try file.renewRecord(isOwn: !options.isShared) { () throws(Errno) in
        let bytes = try file.withDescriptor { (descriptor) throws(Errno) in
          try lendingPermissions(of: descriptor) { () throws(Errno) in try descriptor.attribute(Self.recordAttribute) }
        }
        let record = try verifiedFileRecord(bytes, of: node)
        try requireNotWeaker(record, node)
        return record
      }
    } catch .noData {
      damaged(node, "its record is gone")
      throw .ioError
    }
    let key = file.wrappingKey
    node.state.withLock { $0.cache(key) }
  }

  /// Refuses a record that lets more in than the one of the same file that was known last: an older one that somebody has
  /// put back. Where another mount writes, it may have lowered the class.
  private func requireNotWeaker(_ record: FileRecord, _ node: Node) throws(Errno) {
    guard !options.isShared, let known = node.state.withLock({ $0.cachedClass }),
      ProtectionPolicy.isRaise(from: record.fileClass, to: known)
    else { return }
    damaged(
      node, "its record says \(record.fileClass.name), and said \(known.name): an older record was put in its place")
    throw .ioError
  }

  /// Makes a file just created the node's open file, with one handle.
  package func adopt(_ file: ProtectedFile, for node: Node, forWriting: Bool) -> ProtectedFile {
    let key = file.wrappingKey
    node.state.withLock { state in
      state.file = file
      state.cache(key)
      state.handles += 1
      if forWriting { state.writers += 1 }
    }
    openFiles.add(file)
    // A lock that began since the key was made has gone through the table already.
    if !file.isAllowed(.write) { file.evict() }
    return file
  }

  /// Gives a handle back; with the last one the file and its key go.
  package func close(_ file: ProtectedFile, of node: Node, wasWriter: Bool) {
    var isLast: Bool?
    while isLast == nil {
      isLast = node.state.withLock { state in
        // While the file is the node's, whoever sets the time waits for this; and who opens it anew finds the right one.
        if state.handles == 1, file.isModificationTimeMoved { return nil }
        state.handles -= 1
        if wasWriter { state.writers -= 1 }
        guard state.handles == 0 else { return false }
        state.file = nil
        // Who is just reading what an open file is made of has read what was there before the changes of this one.
        state.classChanges &+= 1
        openFiles.remove(file)
        return true
      }
      if isLast == nil { settleModificationTime(of: file) }
    }
    if isLast == true, !controller.allows(.open, on: file.fileClass) { pagesAreStale(node) }
  }

  /// Opens a file for as long as `body` runs.
  package func withOpenFile<Result>(
    _ node: Node, for operation: ProtectionPolicy.Operation, writing: Bool = true,
    _ body: (ProtectedFile) throws(Errno) -> Result
  ) throws(Errno) -> Result {
    let file = try openFile(node, forWriting: writing, operation: operation)
    defer { close(file, of: node, wasWriter: writing) }
    return try body(file)
  }

  private func loadFile(
    _ node: Node, operation: ProtectionPolicy.Operation
  ) throws(Errno) -> (ProtectedFile, awaitsRecord: Bool) {
    guard node.isRegular else { throw node.isDirectory ? .isDirectory : .invalidArgument }
    var isWritable = !options.isReadOnly
    var status = Status()
    let descriptor = try openBacking(node, isWritable: &isWritable, status: &status)
    try requireRoom(for: descriptor)
    var awaitsRecord = false
    let record: FileRecord
    do throws(Errno) {
      let bytes = try lendingPermissions(of: descriptor) { () throws(Errno) in
        try descriptor.attribute(Self.recordAttribute)
      }
      record = try replayed(verifiedFileRecord(bytes, of: node), node)
    } catch .noData {
      guard status.size == 0, let parent = node.location?.parent else {
        damaged(node, "the file has contents but no record, and so no key")
        throw .ioError
      }
      record = try newFileRecord(in: directory(parent).record.directoryClass).0
      awaitsRecord = true
    }
    try requireNotWeaker(record, node)
    if record.pending != nil { awaitRekey(of: node) }
    try requireKey(of: record, node)
    guard controller.allows(operation, on: record.fileClass) else { throw .permissionDenied }
    let file = try ProtectedFile(
      descriptor: descriptor, isWritable: isWritable, record: record, status: status, controller: controller)
    try fetchKey(of: file, for: operation)
    return (file, awaitsRecord)
  }

  /// An open handle of class B goes on working after the lock, so its key is fetched while it can be. Who is to put a key
  /// into the class, or only to change its record, needs none.
  private func fetchKey(of file: ProtectedFile, for operation: ProtectionPolicy.Operation) throws(Errno) {
    guard file.fileClass == .completeUnlessOpen, operation != .rewrapTo else { return }
    _ = try file.cipher(for: operation)
  }

  /// Opens for reading and writing whatever the caller asked for: the kernel reads through write-only handles to fill
  /// pages, and part of a unit can be written only by reading the rest.
  private func openBacking(
    _ node: Node, isWritable: inout Bool, status: inout Status
  ) throws(Errno) -> Descriptor {
    if isWritable {
      do throws(Errno) {
        return try openKeepingAccessTime(node, [.readWrite, .noFollow, .nonBlocking], status: &status)
      } catch {
        guard [.permissionDenied, .notPermitted, .readOnlyFileSystem, .textFileBusy].contains(error) else {
          throw error
        }
        isWritable = false
      }
    }
    do throws(Errno) {
      return try openKeepingAccessTime(node, [.readOnly, .noFollow, .nonBlocking], status: &status)
    } catch .permissionDenied {
      // The owner may write it and not read it, or only execute it.
      isWritable = !options.isReadOnly
      let path = try open(node, [.path, .noFollow], status: &status)
      return try reopen(path, isWritable ? .readWrite : .readOnly)
    }
  }

  private func reopen(_ path: borrowing Descriptor, _ flags: OpenFlags) throws(Errno) -> Descriptor {
    try lendingPermissions(of: path) { () throws(Errno) in
      do throws(Errno) {
        return try Descriptor.open(PathName(descriptor: path), flags.union([.nonBlocking, .keepAccessTime]))
      } catch .notPermitted {
        return try Descriptor.open(PathName(descriptor: path), flags.union(.nonBlocking))
      }
    }
  }

  /// With `O_NOATIME`, which only the file's owner and root may use; for others the daemon's own reads move the time.
  private func openKeepingAccessTime(
    _ node: Node, _ flags: OpenFlags, status: inout Status
  ) throws(Errno) -> Descriptor {
    do throws(Errno) {
      return try open(node, flags.union(.keepAccessTime), status: &status)
    } catch .notPermitted {
      return try open(node, flags, status: &status)
    }
  }

  /// Makes a file ready to be changed: opened for writing, and with its record.
  package func prepareForWriting(_ file: ProtectedFile, _ node: Node) throws(Errno) {
    if !file.isWritable {
      let descriptor = try file.withDescriptor { (old) throws(Errno) in try reopen(old, .readWrite) }
      try file.becomeWritable(descriptor)
    }
    guard node.state.withLock({ $0.awaitsRecord }) else { return }
    try keyChanges.read { () throws(Errno) in
      // The class may have been given another key since the record was made.
      try file.changeRecord { (record) throws(Errno) in
        let current = controller.isCurrent(record) ? record : try rewrapped(record, for: record.fileClass)
        try file.withDescriptor { (descriptor) throws(Errno) in try setRecord(current.bytes, of: descriptor) }
        return current
      }
      node.state.withLock { $0.awaitsRecord = false }
    }
  }

  /// Gives all open files the modification times that the kernel has, when the mount has ended: of files closed just
  /// before, it tells nothing any more (fuse_conn_destroy in fs/fuse/inode.c).
  package func settleModificationTimes() {
    for file in openFiles.all { settleModificationTime(of: file) }
  }

  func settleModificationTime(of file: ProtectedFile) {
    do throws(Errno) {
      try file.settleModificationTime()
    } catch {
      log.warning("a modification time was not kept", metadata: ["error": "\(error)"])
    }
  }

  /// The kernel keeps the modification time, unless others may change files behind its back.
  package func noteChange(of file: ProtectedFile) {
    file.noteChange()
    if !options.isShared { file.movedModificationTime() }
  }

  /// Refuses an operation on contents that the class of a closed file does not allow, when the kernel knows the file and its
  /// class key is still one of the keybag's. Everything else the store has to tell.
  ///
  /// - Throws: `EACCES`.
  package func requireNotDenied(_ operation: ProtectionPolicy.Operation, on node: Node) throws(Errno) {
    guard !options.isShared else { return }
    let (fileClass, keyID) = node.state.withLock { ($0.cachedClass, $0.cachedKeyID) }
    guard let fileClass, let keyID, !controller.allows(operation, on: fileClass) else { return }
    if case .ifKeyHeld = controller.access(for: operation, on: fileClass) { return }
    if controller.knowsKey(keyID, of: fileClass) { throw .permissionDenied }
  }
}
