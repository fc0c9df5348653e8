import ProtectfsIO
import StoreFormat
import SystemPackage

// How a keybag gets to its place.
extension KeybagFile {
  /// Puts a keybag in place, step by step. What a crash leaves undone is done by ``repair(_:deviceKey:)``.
  ///
  /// - Throws: `keybagUnwritable`, `keybagInUse` when it was not replaced; `keybagNotDurable` when it was, but may not
  ///   be after a power cut; `previousKeybagKept`, `effaceableSecretKept` when it was; `keybagChangedMeanwhile` unless
  ///   what is in place is what the change was made of.
  package func commit(_ change: borrowing KeybagChange) throws(KeyManagementError) {
    try perform(change.steps, of: change)
  }

  /// Takes some steps of a change. Other writers wait for the last of them.
  func perform(_ steps: [KeybagStep], of change: borrowing KeybagChange) throws(KeyManagementError) {
    var replacement = try beginReplacement()
    try require(change.place)
    for step in steps {
      switch step {
      case .writeSecret: try write(change.secret, beside: change.place, of: change.keybag.storeID)
      case .replaceKeeping: try put(change.keybag, &replacement, keepingCurrent: true)
      case .replace: try put(change.keybag, &replacement, keepingCurrent: false)
      case .replaceSecond where replacement.file.isCommitted:
        if try isInPlace(change.keybag, orThrow: KeyManagementError.previousKeybagKept) {
          try replacePrevious(with: change.second ?? change.keybag)
        }
      case .replaceSecond:
        do throws(KeyManagementError) {
          try replacePrevious(with: change.second ?? change.keybag)
        } catch {
          // Nothing of what was asked for was done.
          if case .previousKeybagKept(let error) = error { throw .keybagUnwritable(error) }
          throw error
        }
      case .efface:
        if try isInPlace(change.keybag, orThrow: KeyManagementError.effaceableSecretKept) { try efface(change.keybag) }
      }
    }
  }

  /// Finds out that what is in place is what a change was made of.
  func require(_ place: KeybagChange.Place) throws(KeyManagementError) {
    guard let expected = place.bytes else {
      if (try? read()) != nil { throw .keybagChangedMeanwhile }
      return
    }
    do throws(KeyManagementError) {
      if try read() == expected { return }
    } catch {
      guard error == .keybagMissing else { throw error }
    }
    throw .keybagChangedMeanwhile
  }

  /// The same after the keybag was replaced: that it cannot be read does not undo that.
  private func isInPlace(
    _ keybag: Keybag, orThrow failure: (Errno) -> KeyManagementError
  ) throws(KeyManagementError) -> Bool {
    do throws(KeyManagementError) {
      return try isInPlace(keybag)
    } catch {
      if case .keybagUnreadable(let error) = error { throw failure(error) }
      throw failure(.noSuchFileOrDirectory)
    }
  }

  /// Whether no other change has come since, an erasure that did not wait: then the secret in use would be its.
  func isInPlace(_ keybag: Keybag) throws(KeyManagementError) -> Bool { try read() == keybag.bytes }

  private func write(
    _ secret: borrowing EffaceableSecret, beside place: KeybagChange.Place, of storeID: StoreID
  ) throws(KeyManagementError) {
    guard !secret.isAbsent else { return }
    let storage = try effaceable()
    try writing { () throws(Errno) in
      try storage.write(secret, keeping: place.secret ?? previousSecret(), of: storeID)
    }
  }

  private func previousSecret() -> [UInt8]? {
    guard let bytes = try? readPrevious() else { return nil }
    return (try? KeybagRecord(parsing: bytes))?.effaceableIdentifier
  }

  func put(
    _ keybag: Keybag, _ replacement: inout Replacement, keepingCurrent: Bool
  ) throws(KeyManagementError) {
    replacement.current = nil
    try put(keybag, &replacement.file, keepingCurrent: keepingCurrent)
  }

  /// Replaces the keybag: at every moment it is the old or the new one.
  func put(
    _ keybag: Keybag, _ file: inout AtomicFile, keepingCurrent: Bool
  ) throws(KeyManagementError) {
    do throws(Errno) {
      try unsafe keybag.bytes.withBytes { (bytes) throws(Errno) in
        try unsafe file.commit(bytes, keepingPreviousAs: keepingCurrent ? Self.previousName : nil)
      }
    } catch {
      throw file.isCommitted ? .keybagNotDurable(error) : .keybagUnwritable(error)
    }
  }

  /// Replaces the second copy. At no point is there less than one whole keybag.
  ///
  /// - Parameter overtakes: another writer who does not finish is not to undo this.
  /// - Throws: `previousKeybagKept`.
  func replacePrevious(with keybag: Keybag, overtakes: Bool = false) throws(KeyManagementError) {
    do throws(Errno) {
      var file = try AtomicFile(
        replacing: Self.previousName, in: directory, patience: patience, overtakes: overtakes)
      try unsafe keybag.bytes.withBytes { (bytes) throws(Errno) in try unsafe file.commit(bytes) }
    } catch {
      throw .previousKeybagKept(error)
    }
  }

  /// Overwrites all effaceable secrets but the one of a keybag.
  func efface(_ keybag: Keybag) throws(KeyManagementError) {
    do throws(Errno) {
      try EffaceableStorage(in: directory).efface(allBut: keybag.record.effaceableIdentifier, of: keybag.storeID)
    } catch {
      throw .effaceableSecretKept(error)
    }
  }

  func writing<Result: ~Copyable>(
    _ body: () throws(Errno) -> Result
  ) throws(KeyManagementError) -> Result {
    do throws(Errno) {
      return try body()
    } catch {
      throw error == .wouldBlock ? .keybagInUse : .keybagUnwritable(error)
    }
  }
}
