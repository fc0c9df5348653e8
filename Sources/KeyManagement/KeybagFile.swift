import ProtectfsIO
import StoreFormat
import SystemPackage

/// Where a store's keybag is: `.protectfs/keybag` in the backing directory, the one before it in `keybag.previous`.
package struct KeybagFile: ~Copyable, Sendable {
  static let name: PathName = "keybag"
  static let previousName: PathName = "keybag.previous"

  /// The store's own directory.
  let directory: Descriptor

  /// The keybag of the store in a backing directory.
  ///
  /// - Throws: `keybagMissing` when the directory has no store.
  package init(backing: borrowing Descriptor) throws(KeyManagementError) {
    do throws(Errno) {
      directory = try backing.open(PathName(NameEncoding.storeDirectory), [.readOnly, .directory, .noFollow])
    } catch {
      throw error == .noSuchFileOrDirectory ? .keybagMissing : .keybagUnreadable(error)
    }
  }

  /// Makes the store's own directory, for a new store. One without a keybag may be there already.
  package static func makeDirectory(in backing: borrowing Descriptor) throws(KeyManagementError) {
    do throws(Errno) {
      try backing.makeDirectory(PathName(NameEncoding.storeDirectory), mode: 0o700)
    } catch {
      guard error == .fileExists else { throw .keybagUnwritable(error) }
    }
  }

  /// The bytes of the keybag.
  package func read() throws(KeyManagementError) -> [UInt8] { try read(Self.name) }

  /// The bytes of the keybag before the last change.
  package func readPrevious() throws(KeyManagementError) -> [UInt8] { try read(Self.previousName) }

  /// The effaceable secret that belongs to a keybag.
  ///
  /// - Throws: `effaceableSecretMissing`.
  package func effaceableSecret(of keybag: Keybag) throws(KeyManagementError) -> EffaceableSecret {
    guard let identifier = keybag.record.effaceableIdentifier else { return .absent() }
    return try effaceable().secret(identifier, of: keybag.storeID)
  }

  /// Whether the effaceable secret of a keybag is there, or it needs none; `nil` where that cannot be told.
  package func hasSecret(of record: KeybagRecord) -> Bool? {
    guard let identifier = record.effaceableIdentifier else { return true }
    do throws(KeyManagementError) {
      _ = try effaceable().secret(identifier, of: record.storeID)
      return true
    } catch .effaceableSecretMissing {
      return false
    } catch {
      return nil
    }
  }

  /// Whether the effaceable secret of a keybag is there in both of its copies.
  package func hasBothEffaceableCopies(of keybag: Keybag) throws(KeyManagementError) -> Bool {
    guard let identifier = keybag.record.effaceableIdentifier else { return true }
    let storage = try effaceable()
    do throws(Errno) {
      return try storage.copies(of: identifier, keybag.storeID) == EffaceableStorage.copies
    } catch { throw .keybagUnreadable(error) }
  }

  /// Writes both copies of the effaceable secret of a keybag from the one that is left.
  package func restoreEffaceableCopies(of keybag: Keybag) throws(Errno) {
    guard let identifier = keybag.record.effaceableIdentifier else { return }
    guard let storage = try? effaceable(), let secret = try? effaceableSecret(of: keybag) else { throw .ioError }
    try storage.restoreCopies(secret, identifier, of: keybag.storeID)
  }

  /// Puts a changed keybag in the place of the one it was made from, which is kept as the previous one, unless the change
  /// revokes something. At every moment one of the two is there with the secret that belongs to it:
  ///
  /// 1. A new effaceable secret is written into the free slot.
  /// 2. The keybag is replaced.
  /// 3. Of a change that revokes: the second copy is made the same, and the old secret overwritten. Of one that adds class
  ///    keys the second copy is made the same too: files are soon under keys that the one before does not have.
  ///
  /// What a crash leaves undone of 3 is done by ``settle(_:deviceKey:)``.
  /// - Throws: `keybagUnwritable` when it was not replaced; `keybagNotDurable` when it was, but may not be after a power
  ///   cut; `keybagChangedMeanwhile` unless the keybag there is the one that the new one was made of: same store, one
  ///   generation less, or none where the new one is the first; `previousKeybagKept`, `effaceableSecretKept`.
  package func commit(_ change: borrowing KeybagChange) throws(KeyManagementError) {
    if change.keybag.erasureTime != nil { return try erase(leaving: change.keybag) }
    try replace(with: change.keybag, effaceable: change.effaceable)
    if change.revokes { try finish(change.keybag) } else if change.addsKeys { try replacePrevious(with: change.keybag) }
  }

  /// Writes the first keybag of a store, and its second copy.
  package func create(_ keybag: Keybag, _ effaceable: borrowing EffaceableSecret) throws(KeyManagementError) {
    try replace(with: keybag, effaceable: effaceable)
    try replacePrevious(with: keybag)
  }

  func replace(
    with keybag: Keybag, effaceable: borrowing EffaceableSecret
  ) throws(KeyManagementError) {
    var file = try writing { () throws(Errno) in try AtomicFile(replacing: Self.name, in: directory) }
    let current = try currentRecord()
    let isNext = current.map(keybag.record.follows) ?? (keybag.generation == 1)
    guard isNext else { throw .keybagChangedMeanwhile }
    if !effaceable.isAbsent {
      let storage = try self.effaceable()
      try writing { () throws(Errno) in
        try storage.write(
          effaceable, keeping: current?.effaceableIdentifier ?? previousRecord()?.effaceableIdentifier,
          of: keybag.storeID)
      }
    }
    do throws(Errno) {
      try unsafe keybag.bytes.withBytes { (bytes) throws(Errno) in
        try unsafe file.commit(bytes, keepingPreviousAs: Self.previousName)
      }
    } catch {
      throw file.isCommitted ? .keybagNotDurable(error) : .keybagUnwritable(error)
    }
  }

  func previousRecord() -> KeybagRecord? {
    guard let bytes = try? readPrevious() else { return nil }
    return try? KeybagRecord(parsing: bytes)
  }

  /// Unless another change has come first: then the secret that is in use is its.
  func finish(_ keybag: Keybag) throws(KeyManagementError) {
    guard try currentRecord()?.generation == keybag.generation else { return }
    if keybag.erasureTime != nil { return try finishErasure(keybag) }
    try replacePrevious(with: keybag)
    try efface(keybag)
  }

  func efface(_ keybag: Keybag) throws(KeyManagementError) {
    do throws(Errno) {
      try EffaceableStorage(in: directory).efface(allBut: keybag.record.effaceableIdentifier, of: keybag.storeID)
    } catch {
      throw .effaceableSecretKept(error)
    }
  }

  func effaceable() throws(KeyManagementError) -> EffaceableStorage {
    do throws(Errno) { return try EffaceableStorage(in: directory) } catch { throw .keybagUnreadable(error) }
  }

  /// Makes the second copy the same as the keybag. At no point is there less than one whole keybag.
  ///
  /// - Throws: `previousKeybagKept`.
  func replacePrevious(with keybag: Keybag) throws(KeyManagementError) {
    do throws(Errno) {
      var file = try AtomicFile(replacing: Self.previousName, in: directory)
      try unsafe keybag.bytes.withBytes { (bytes) throws(Errno) in try unsafe file.commit(bytes) }
    } catch {
      throw .previousKeybagKept(error)
    }
  }

  /// The record in place; `nil` where there is none.
  func currentRecord() throws(KeyManagementError) -> KeybagRecord? {
    let bytes: [UInt8]
    do throws(KeyManagementError) {
      bytes = try read()
    } catch .keybagMissing {
      return nil
    }
    do throws(FormatError) { return try KeybagRecord(parsing: bytes) } catch { throw KeyManagementError(error) }
  }

  func writing<Result: ~Copyable>(
    _ body: () throws(Errno) -> Result
  ) throws(KeyManagementError) -> Result {
    do throws(Errno) { return try body() } catch { throw .keybagUnwritable(error) }
  }

  func read(_ name: PathName, limit: Int = KeybagRecord.longest + 1) throws(KeyManagementError) -> [UInt8] {
    do throws(Errno) {
      let file = try directory.open(name, [.readOnly, .noFollow, .nonBlocking])
      guard try file.status().type == .regular else { throw Errno.invalidArgument }
      return try file.readAll(limit: limit)
    } catch {
      throw error == .noSuchFileOrDirectory ? .keybagMissing : .keybagUnreadable(error)
    }
  }
}
