import Cryptography
import FileProtection
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

// New keys for files: drawn when a class is raised, or on request. The engine brings the contents under them.
extension BackingTree {
  /// What a change of class does to the key.
  package enum Rekeying {
    /// A raise draws another one.
    case onRaise
    /// It stays: who has an older record opens the file with that.
    case never
  }

  /// Draws a new key for a file, in the class that it has.
  package func rekey(_ node: Node) throws(Errno) {
    guard node.isRegular else { throw node.isDirectory ? .isDirectory : .notSupportedOnSocket }
    try withOpenFile(node, for: .rewrapFrom) { (file) throws(Errno) in
      try changeKey(of: file, node) { (record, isEmpty) throws(Errno) in
        if let change = try following(record, in: record.fileClass, record.isExplicit) { return change }
        return try replaced(record, for: record.fileClass, isExplicit: record.isExplicit, of: file, isEmpty)
      }
      keyHasChanged(of: file, node)
    }
  }

  /// Has the contents of a file brought under the key that it was given, and takes that away again where a lock began meanwhile,
  /// which may have passed the file already.
  func keyHasChanged(of file: ProtectedFile, _ node: Node) {
    awaitRekey(of: node, file)
    guard !file.isAllowed(.read) else { return }
    file.evict()
    pagesAreStale(node)
  }

  /// Changes a file's key. What is pending then, is for the caller to have done.
  func changeKey(
    of file: ProtectedFile, _ node: Node, _ change: (FileRecord, _ isEmpty: Bool) throws(Errno) -> KeyChange
  ) throws(Errno) {
    try keyChanges.read { () throws(Errno) in
      try file.changeKey { (record, isEmpty) throws(Errno) in
        let changed = try change(record, isEmpty)
        try file.withDescriptor { (descriptor) throws(Errno) in try setRecord(changed.record.bytes, of: descriptor) }
        return changed
      }
    }
  }

  /// A record with a new key. The old one is pending where contents or attributes are under it.
  func replaced(
    _ record: FileRecord, for newClass: ProtectionClass, isExplicit: Bool, of file: ProtectedFile, _ isEmpty: Bool
  ) throws(Errno) -> KeyChange {
    let hasNothing = isEmpty ? try !hasEncryptedAttributes(file) : false
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
    let (keyID, wrappedKey) = try controller.wrap(new, for: newClass)
    let changed = try fileRecord(
      newClass, isExplicit: isExplicit, classKeyID: keyID, wrappedKey: wrappedKey,
      pending: hasNothing ? nil : PendingRekey(wrappedOldKey: wrappedOldKey))
    return (changed, try ProtectedFile.contentsCipher(of: new, changed))
  }

  private func newFileKey() throws(Errno) -> FileKey {
    do throws(CryptographyError) { return try FileKey() } catch { throw errno(error) }
  }

  /// The record of a file whose rekey is pending, for a change that asks for another one; `nil` where none is pending.
  func following(
    _ record: FileRecord, in newClass: ProtectionClass, _ isExplicit: Bool
  ) throws(Errno) -> KeyChange? {
    guard record.pending != nil else { return nil }
    var record = record
    record.pending?.isFollowed = true
    let changed = try rewrapped(record, for: newClass, isExplicit: isExplicit)
    return .rewrapped(changed)
  }

  /// Has a file's contents brought under its new key, if that is pending.
  func awaitRekey(of node: Node, _ file: ProtectedFile) {
    if file.record.pending != nil { awaitRekey(of: node) }
  }

  /// Has a file's contents brought under its new key, as soon as may be.
  func awaitRekey(of node: Node) {
    guard !options.isReadOnly else { return }
    rekeys.add(node, in: nodes)
  }

  /// Class keys have come into memory: what is pending can go on.
  package func resumeRekeys() { rekeys.resume() }

  /// The engine comes to its end.
  package func stopRekeys() { rekeys.stop() }

  /// A record with one more new key, for a file whose rekey has come to its end and is followed by another one.
  func followingRekey(_ record: FileRecord) throws(Errno) -> (FileRecord, ContentsCipher) {
    var finished = record
    finished.pending = nil
    let changed = try replaced(finished, for: record.fileClass, isExplicit: record.isExplicit, hasNothing: false)
    return (changed.record, changed.cipher)
  }

  /// Whether a file's rekey needs nothing that an unlock brings.
  func isAvailable(_ node: Node) -> Bool {
    guard let fileClass = node.state.withLock({ $0.cachedClass }) else { return controller.lockState == .unlocked }
    return controller.allows(.open, on: fileClass)
  }

  /// Runs `body`, which changes mode, owner or capabilities of a file: not while a rekey writes it, and gives back what the
  /// kernel takes away then.
  package func withoutRekey<Result>(of node: Node, _ body: () throws(Errno) -> Result) throws(Errno) -> Result {
    guard let file = node.file else { return try body() }
    return try file.keepingKey(body)
  }

  /// What is pending.
  package var rekeyStatus: RekeyStatus { rekeys.status }
}

extension KeyChange {
  var record: FileRecord {
    switch self {
    case .rewrapped(let record), .replaced(let record, _): record
    }
  }
}
