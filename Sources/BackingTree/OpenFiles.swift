import FileProtection
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

// Open files and their nodes: one `ProtectedFile` per inode, shared by its handles.
extension BackingTree {
  /// Adds a handle to a file that is open for writing, and stays so meanwhile.
  func addHandle(of node: Node) {
    node.state.withLock { state in
      state.handles += 1
      state.writers += 1
    }
  }

  /// Opens a node's file, or adds a handle to it. The class is checked at every open.
  ///
  /// - Throws: `EKEYREVOKED` when the class key was erased, `ENOKEY` when another keybag has it, `EACCES` when the
  ///   class is locked, `EIO` for a damaged record, or what open(2) fails with.
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
          if recordSource.mustRenew(file) { try renewRecord(of: file, node) }
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
      let (file, awaitsRecord): (ProtectedFile, Bool)
      do throws(Errno) {
        (file, awaitsRecord) = try loadFile(node, operation: operation, classChanges)
      } catch {
        // The record may have been read before a change, and the error decided after it.
        guard node.state.withLock({ $0.isUnchanged(since: classChanges) }) else { continue }
        throw error
      }
      let key = file.wrappingKey
      node.state.withLock { state in
        guard state.isUnchanged(since: classChanges) else { return }
        state.awaitsRecord = awaitsRecord
        state.cache(key)
        state.file = file
        openFiles.add(file)
      }
      // Another thread may have been first. The next round takes what is there.
    }
  }

  /// Checks that the class key of an open file still exists. The record in memory may be from before a rotation.
  private func requireKey(of file: ProtectedFile, _ node: Node) throws(Errno) {
    do throws(Errno) {
      try controller.requireKey(of: file.record)
    } catch {
      try renewRecord(of: file, node)
      try controller.requireKey(of: file.record)
    }
  }

  /// Checks the same for a file that is about to be opened. If only another keybag opens the file, the administrator is
  /// told in the log.
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

  /// Replaces the record in memory by the one on disk, since others may have changed the class. A record that is only
  /// in memory is replaced if its class key is no longer current.
  func renewRecord(of file: ProtectedFile, _ node: Node) throws(Errno) {
    let (wasRefused, oldClass) = (file.isRefused, file.fileClass)
    try file.renewRecord(isOwn: recordSource.isOwn(node)) { () throws(Errno) in
      let bytes: [UInt8]
      do throws(Errno) {
        bytes = try recordBytes(of: file)
      } catch .noData {
        return try recordInMemory(of: file, node)
      }
      let record = try file.withDescriptor { (descriptor) throws(Errno) in
        try verifiedFileRecord(bytes, of: node, descriptor)
      }
      // After an error it is unknown which class the file has.
      if !file.isRefused { try requireNotWeaker(record, than: file.fileClass, node) }
      node.state.withLock { $0.awaitsRecord = false }
      return record
    }
    // Read under the node's lock, so that none of an older record follows.
    node.state.withLock { $0.cache(file.wrappingKey) }
    // A lock may have left the pages alone, as those of another class.
    if wasRefused || file.fileClass != oldClass, !file.isAllowed(.read) { pagesAreStale(node) }
  }

  /// The record of a file that has none on disk, which is certain by now, also if it was refused. The caller holds the
  /// contents lock exclusively.
  private func recordInMemory(of file: ProtectedFile, _ node: Node) throws(Errno) -> FileRecord {
    guard node.state.withLock({ $0.awaitsRecord }) else {
      damaged(node, "its record is gone")
      throw .ioError
    }
    let change = try currentKey(of: file.record)
    if case .replaced(let record, let cipher) = change { file.replaceKey(record, cipher) }
    return change.record
  }

  /// The key of a file that is empty and whose record is only in memory: a new one, if the class key was replaced.
  private func currentKey(of record: FileRecord) throws(Errno) -> KeyChange {
    if controller.isCurrent(record) { return .rewrapped(record) }
    let (record, cipher) = try newFileRecord(in: record.fileClass)
    return .replaced(record, cipher)
  }

  /// Refuses a record with a weaker class than the last known record of the same file: an attacker may have put an
  /// older record back.
  private func requireNotWeaker(
    _ record: FileRecord, than known: ProtectionClass, _ node: Node
  ) throws(Errno) {
    guard recordSource.isOutdated(record.fileClass, known) else { return }
    damaged(
      node, "its record says \(record.fileClass.name), and said \(known.name): an older record was put in its place")
    throw .ioError
  }

  /// Makes a newly created file the node's open file, with one handle.
  package func adopt(_ file: ProtectedFile, for node: Node, forWriting: Bool) -> ProtectedFile {
    let key = file.wrappingKey
    node.state.withLock { state in
      state.file = file
      state.cache(key)
      state.handles += 1
      if forWriting { state.writers += 1 }
    }
    openFiles.add(file)
    // A lock that began after the key was made has already passed the table.
    if !file.isAllowed(.write) { file.evict() }
    return file
  }

  /// Opens a file while `body` runs.
  package func withOpenFile<Result>(
    _ node: Node, for operation: ProtectionPolicy.Operation, writing: Bool = true,
    _ body: (ProtectedFile) throws(Errno) -> Result
  ) throws(Errno) -> Result {
    let file = try openFile(node, forWriting: writing, operation: operation)
    defer { close(file, of: node, wasWriter: writing) }
    return try body(file)
  }

  private func loadFile(
    _ node: Node, operation: ProtectionPolicy.Operation, _ classChanges: UInt32
  ) throws(Errno) -> (ProtectedFile, awaitsRecord: Bool) {
    guard node.isRegular else { throw node.isDirectory ? .isDirectory : .invalidArgument }
    var isWritable = options.writers.mayWrite
    var status = Status()
    let descriptor = try openBacking(node, isWritable: &isWritable, status: &status)
    try requireRoom(for: descriptor)
    var awaitsRecord = false
    let record: FileRecord
    do throws(Errno) {
      let bytes = try ownerPermissions.ensuring(on: descriptor) { () throws(Errno) in
        try descriptor.attribute(Self.recordAttribute)
      }
      record = try replayed(verifiedFileRecord(bytes, of: node, descriptor), of: descriptor, node)
    } catch .noData {
      guard status.size == 0, let parent = node.location?.parent else {
        damaged(node, "the file has contents but no record, and so no key")
        throw .ioError
      }
      record = try newFileRecord(in: directory(parent).record.directoryClass).0
      awaitsRecord = true
    }
    // If the class was changed since the record was read, the caller begins anew.
    let known = node.state.withLock { $0.isUnchanged(since: classChanges) ? $0.cachedClass : nil }
    if let known { try requireNotWeaker(record, than: known, node) }
    if record.pending != nil { awaitRekey(of: node) }
    try requireKey(of: record, node)
    guard controller.allows(operation, on: record.fileClass) else {
      // The refusal is reported with the class.
      node.state.withLock { state in
        if state.isUnchanged(since: classChanges) {
          state.cache((record.fileClass, record.classKeyID, record.isExplicit))
        }
      }
      throw .permissionDenied
    }
    let file = try ProtectedFile(
      descriptor: descriptor, layout: options.layout, isWritable: isWritable, record: record, status: status,
      controller: controller, writers: options.writers,
      known: record.clean ?? closedContents(of: node), willChange: changeAnnouncement(of: node))
    try fetchKey(of: file, for: operation)
    return (file, awaitsRecord)
  }

  /// Fetches the key of a class B file while the key is available, because open handles keep working after a lock.
  /// Wrapping a key for the class, or changing only the record, needs no file key.
  private func fetchKey(of file: ProtectedFile, for operation: ProtectionPolicy.Operation) throws(Errno) {
    guard file.fileClass.keepsOpenFiles, operation != .rewrapTo else { return }
    _ = try file.cipher(for: operation)
  }

  /// Opens the file for reading and writing, whatever the caller asked for: the kernel reads through write-only handles
  /// to fill pages, and a partial write of a unit has to read the rest.
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
      // The owner may be allowed to write but not read the file, or only to execute it.
      isWritable = options.writers.mayWrite
      let path = try open(node, [.path, .noFollow], status: &status)
      return try reopen(path, isWritable ? .readWrite : .readOnly)
    }
  }

  /// Makes a file durable, its record and its contents. `O_PATH` is enough.
  func synchronize(_ path: borrowing Descriptor) throws(Errno) { try reopen(path, .readOnly).synchronize() }

  private func reopen(_ path: borrowing Descriptor, _ flags: OpenFlags) throws(Errno) -> Descriptor {
    try ownerPermissions.ensuring(on: path) { () throws(Errno) in
      do throws(Errno) {
        return try Descriptor.open(PathName(descriptor: path), flags.union([.nonBlocking, .keepAccessTime]))
      } catch .notPermitted {
        return try Descriptor.open(PathName(descriptor: path), flags.union(.nonBlocking))
      }
    }
  }

  /// Opens with `O_NOATIME`, which only the file's owner and root may use. For others, the daemon's own reads move the
  /// access time.
  private func openKeepingAccessTime(
    _ node: Node, _ flags: OpenFlags, status: inout Status
  ) throws(Errno) -> Descriptor {
    do throws(Errno) {
      return try open(node, flags.union(.keepAccessTime), status: &status)
    } catch .notPermitted {
      return try open(node, flags, status: &status)
    }
  }

  /// Prepares a file for changes: opens it for writing and writes its record if it has none.
  package func prepareForWriting(_ file: ProtectedFile, _ node: Node) throws(Errno) {
    if !file.isWritable {
      let descriptor = try file.withDescriptor { (old) throws(Errno) in try reopen(old, .readWrite) }
      try file.becomeWritable(descriptor)
    }
    guard node.state.withLock({ $0.awaitsRecord }) else { return }
    try keyChanges.read { () throws(Errno) in
      try file.changeKey { (record, _) throws(Errno) in
        // Another thread may have been first.
        guard node.state.withLock({ $0.awaitsRecord }) else { return .rewrapped(record) }
        let change = try currentKey(of: record)
        try replaceRecord(of: file, node, by: change.record)
        node.state.withLock { $0.awaitsRecord = false }
        return change
      }
    }
  }

  /// Records a change of a file's contents. The kernel keeps the modification time, unless others may change files
  /// behind its back.
  package func noteChange(of file: ProtectedFile) {
    file.noteChange()
    if options.writers == .sole {
      file.movedModificationTime()
    } else if file.isRekeyed || file.isModificationTimeMoved {
      file.adoptModificationTime()
    }
  }

  /// Refuses an operation on the contents of a closed file if its class does not allow the operation, the kernel knows
  /// the file, and the keybag still has its class key. All other cases need the store and are decided there.
  ///
  /// - Throws: `EACCES`.
  package func requireNotDenied(_ operation: ProtectionPolicy.Operation, on node: Node) throws(Errno) {
    guard let (fileClass, keyID, _) = recordSource.knownClass(of: node), !controller.allows(operation, on: fileClass)
    else { return }
    if case .ifKeyHeld = controller.access(for: operation, on: fileClass) { return }
    if controller.knowsKey(keyID, of: fileClass) { throw .permissionDenied }
  }
}
