import Contents
import Cryptography
import FileProtection
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

// New keys for files, generated when a class is raised or on request. The engine re-encrypts the contents.
extension BackingTree {
  /// The effect of a change of class on the file key.
  package enum Rekeying {
    /// A raise generates a new key.
    case onRaise
    /// The key stays. Someone who has an older record can open the file with it.
    case never
  }

  /// Generates a new key for a file in its present class.
  package func rekey(_ node: Node) throws(Errno) {
    guard node.isRegular else { throw node.isDirectory ? .isDirectory : .notSupportedOnSocket }
    try withOpenFile(node, for: .rewrapFrom) { (file) throws(Errno) in
      try changeKey(of: file, node) { (record, isEmpty) throws(Errno) in
        try rekeyed(record, for: record.fileClass, isExplicit: record.isExplicit, of: file, isEmpty)
      }
      keyHasChanged(of: file, node)
    }
  }

  /// Queues a file for re-encryption under its new key. If a lock began meanwhile, it may have passed the file already,
  /// so the key is evicted.
  func keyHasChanged(of file: ProtectedFile, _ node: Node) {
    awaitRekey(of: node, file)
    guard !file.isAllowed(.read) else { return }
    file.evict()
    pagesAreStale(node)
  }

  /// Changes a file's key. The caller queues the rekey that is then pending.
  func changeKey(
    of file: ProtectedFile, _ node: Node, _ change: (FileRecord, _ isEmpty: Bool) throws(Errno) -> KeyChange
  ) throws(Errno) {
    try keyChanges.read { () throws(Errno) in
      try file.changeKey { (record, isEmpty) throws(Errno) in
        let changed = try change(record, isEmpty)
        try replaceRecord(of: file, node, by: changed.record)
        return changed
      }
    }
  }

  /// Makes a record with another key durable where a flush of the file system does not: the class key that was named
  /// before may be retired or erased next.
  func makeKeyDurable(of file: ProtectedFile, insteadOf old: FileRecord) throws(Errno) {
    guard !isSynchronizedWhole, file.record.classKeyID != old.classKeyID else { return }
    try file.synchronize(dataOnly: false)
  }

  /// Replaces the record of an open file on disk. The caller holds the contents lock exclusively. After an error the
  /// record is read back, since it may have been replaced nevertheless; if that fails too, the file is refused until
  /// the record can be read, which the rekey engine tries.
  ///
  /// - Throws: the error of writing the record, unless the file has the new one.
  func replaceRecord(of file: ProtectedFile, _ node: Node, by record: FileRecord) throws(Errno) {
    do throws(Errno) {
      try file.withDescriptor { (descriptor) throws(Errno) in try setRecord(record.bytes, of: descriptor) }
    } catch {
      let failure = error
      do throws(Errno) {
        if try recordBytes(of: file) == record.bytes { return }
      } catch {
        if error != .noData {
          file.refuseUntilRenewed()
          awaitRekey(of: node)
        }
      }
      throw failure
    }
  }

  /// A record with a new key. The old key stays pending if contents or extended attributes are encrypted under it. If a
  /// rekey is pending already, the record only notes that another follows.
  ///
  /// - Throws: `E2BIG` if the names of the file's extended attributes take more than 64 KiB: the kernel does not list
  ///   them then (listxattr(2)), so a rekey could not find those that are encrypted.
  func rekeyed(
    _ record: FileRecord, for newClass: ProtectionClass, isExplicit: Bool, of file: ProtectedFile, _ isEmpty: Bool
  ) throws(Errno) -> KeyChange {
    let hasAttributes = try hasEncryptedAttributes(file)
    if record.pending != nil {
      var record = record
      record.pending?.isFollowed = true
      return .rewrapped(try rewrapped(record, for: newClass, isExplicit: isExplicit))
    }
    let hasNothing = isEmpty && !hasAttributes
    if !hasNothing { try rekeyJournal.open() }
    let (changed, cipher) = try replaced(record, for: newClass, isExplicit: isExplicit, hasNothing: hasNothing)
    return .replaced(changed, cipher)
  }

  private func replaced(
    _ record: FileRecord, for newClass: ProtectionClass, isExplicit: Bool, hasNothing: Bool
  ) throws(Errno) -> (record: FileRecord, cipher: ContentsCipher) {
    let old = try controller.fileKey(of: record)
    let new = try newFileKey()
    let wrappedOldKey: [UInt8]
    do throws(CryptographyError) { wrappedOldKey = try new.wrap(old: old) } catch { throw errno(error) }
    var changed = try wrapped(new, for: newClass, in: record)
    changed.isExplicit = isExplicit
    changed.pending = hasNothing ? nil : PendingRekey(wrappedOldKey: wrappedOldKey)
    changed = try tagged(changed)
    return (changed, try options.layout.cipher(of: new, changed))
  }

  private func newFileKey() throws(Errno) -> FileKey {
    do throws(CryptographyError) { return try FileKey() } catch { throw errno(error) }
  }

  /// Queues a file for re-encryption under its new key, if that is pending.
  func awaitRekey(of node: Node, _ file: ProtectedFile) {
    if file.record.pending != nil { awaitRekey(of: node) }
  }

  /// Queues a file for re-encryption under its new key, as soon as possible.
  func awaitRekey(of node: Node) {
    guard options.writers.mayWrite else { return }
    rekeys.add(node, in: nodes)
  }

  /// Resumes pending rekeys after class keys have come into memory.
  package func resumeRekeys() { rekeys.resume() }

  /// Stops the engine.
  package func stopRekeys() { rekeys.stop() }

  /// A record with a further new key, for a file whose rekey has finished and is followed by another one.
  func followingRekey(_ record: FileRecord) throws(Errno) -> (FileRecord, ContentsCipher) {
    var finished = record
    finished.pending = nil
    let changed = try replaced(finished, for: record.fileClass, isExplicit: record.isExplicit, hasNothing: false)
    return (changed.record, changed.cipher)
  }

  /// Whether a file's rekey can run without an unlock.
  func isAvailable(_ node: Node) -> Bool {
    guard let fileClass = node.state.withLock({ $0.cachedClass }) else { return controller.lockState == .unlocked }
    return controller.allows(.open, on: fileClass)
  }

  /// Runs `body`, which changes the mode, owner or capabilities of a file, or writes the file for a rekey and restores
  /// those that the kernel removes at writes. Neither happens during the other.
  package func holdingPrivileges<Result>(of node: Node, _ body: () throws(Errno) -> Result) throws(Errno) -> Result {
    try node.privileges.withLock { (_) throws(Errno) in try body() }
  }

  /// The pending rekeys.
  package var rekeyStatus: RekeyStatus { rekeys.status }
}

extension KeyChange {
  var record: FileRecord {
    switch self {
    case .rewrapped(let record), .replaced(let record, _): record
    }
  }
}
