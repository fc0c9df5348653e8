import Cryptography
import FileSystem
import KeyManagement
import ProtectfsClient
import ProtectfsPolicy
import StoreFormat
import Synchronization
import SystemPackage

// What needs a secret: unlocking, and changes of the keybag. One call at a time (`DerivationLock`).
extension Daemon {
  package func unlock(_ secret: consuming UnlockSecret) throws(ControlError) {
    do throws(KeyManagementError) {
      // Not with the turn taken: a lock may be waiting for a rotation, and that one for the turn.
      repeat { machine.waitUntilUnlockable() } while try !unlockNow(secret)
      tree.resumeRekeys()
      log.notice("unlocked")
    } catch {
      throw refusal(error)
    }
  }

  /// Returns `false` where a lock began to revoke meanwhile.
  private func unlockNow(_ secret: borrowing UnlockSecret) throws(KeyManagementError) -> Bool {
    var trial = try turn(toTry: secret)
    takeTurn()
    defer { giveTurn() }
    // Where another mount may write, it may also have changed the passcode.
    if options.hasOtherWriters { try adoptOthersKeybag() }
    let opened = try open(keybag.withLock { $0 }, with: secret, &trial)
    return machine.unlock(try opened.heldKeys())
  }

  private func adoptOthersKeybag() throws(KeyManagementError) {
    let current = try readKeybag()
    if (try? requireSuccessor(current)) == nil {
      log.error("another keybag was put in place, which may lack class keys")
    }
    var noneKeys = try current.noneClassKeys(
      deviceKey: deviceKey, effaceable: KeybagFile(backing: backing).effaceableSecret(of: current))
    keybag.withLock { $0 = current }
    controller.install(noneKeys.take(.none) { HeldKey($0) }, for: .none)
    controller.adopt(current)
  }

  package func changePasscode(
    from old: consuming UnlockSecret, to new: consuming SecretBytes
  ) throws(ControlError) {
    try change(with: old) { (opened) throws(KeyManagementError) in try opened.changingPasscode(to: new) }
    log.notice("the passcode was changed")
  }

  package func addKey(
    _ new: consuming UnlockSecret, label: String, with secret: consuming UnlockSecret
  ) throws(ControlError) {
    try change(with: secret) { (opened) throws(KeyManagementError) in try opened.adding(new, label: label) }
    log.notice("a way in was added")
  }

  package func removeKey(_ id: [UInt8], with secret: consuming UnlockSecret) throws(ControlError) {
    try change(with: secret) { (opened) throws(KeyManagementError) in try opened.removing(protector: id) }
    log.notice("a way in was removed")
  }

  // MARK: The keybag in its place

  /// Changes the keybag that is in place now.
  private func change(
    with secret: borrowing UnlockSecret,
    _ make: (borrowing OpenKeybag) throws(KeyManagementError) -> KeybagChange
  ) throws(ControlError) {
    try requireWritable()
    do throws(KeyManagementError) {
      var trial = try turn(toTry: secret)
      takeTurn()
      defer { giveTurn() }
      let opened = try openToChange(with: secret, &trial)
      let change = try make(opened)
      // Those of a rotation that could not be begun, too: the keybag in place may have them already.
      let keys =
        hasOtherKeys(change.keybag) ? try opened.following(change).heldKeys(of: ProtectionClass.allCases) : [:]
      try commit(change) { [machine] in machine.replaceKeys(keys) }
    } catch {
      throw refusal(error)
    }
  }

  func requireWritable() throws(ControlError) {
    guard !options.isReadOnly else { throw ControlError(.readOnly, "the store is mounted read-only") }
  }

  /// Waits until nobody else changes the keybag. Given back before anything is waited for that a lock may hold up.
  func takeTurn() { keybagFile.beginWriting() }

  func giveTurn() { keybagFile.endWriting() }

  func readKeybag() throws(KeyManagementError) -> Keybag {
    try Keybag(parsing: KeybagFile(backing: backing).read(), deviceKey: deviceKey)
  }

  /// Waits until no other process tries a passcode. Before ``takeTurn()``, since a lock of the mount may wait for that.
  func turn(toTry secret: borrowing UnlockSecret) throws(KeyManagementError) -> PasscodeTurn {
    try KeybagFile(backing: backing).turn(toTry: secret)
  }

  func open(
    _ keybag: Keybag, with secret: borrowing UnlockSecret, _ trial: inout PasscodeTurn
  ) throws(KeyManagementError) -> OpenKeybag {
    let file = try KeybagFile(backing: backing)
    var known = attempts.withLock { $0 }
    defer { attempts.withLock { [known] in $0 = known } }
    return try file.open(keybag, with: secret, deviceKey: deviceKey, known: &known, &trial)
  }

  /// Opens the keybag that is in place to change it, which overwrites the second copy: class keys that only that one has are
  /// taken in first.
  ///
  /// - Throws: `keybagPutBack` where the keybag is not one that comes after the one that this daemon goes by: a change of it
  ///   would lose keys.
  func openToChange(
    with secret: borrowing UnlockSecret, _ trial: inout PasscodeTurn
  ) throws(KeyManagementError) -> OpenKeybag {
    let current = try readKeybag()
    try requireSuccessor(current)
    let opened = try open(current, with: secret, &trial)
    let file = try KeybagFile(backing: backing)
    guard let change = try file.reuniting(opened) else { return opened }
    let new = opened.following(change)
    let keys = try new.heldKeys(of: ProtectionClass.allCases)
    try file.commit(reunion: change)
    machine.replaceKeys(keys)
    adopt(change.keybag)
    return new
  }

  /// Finds out that a keybag in place is this daemon's, or one that a change has made of it.
  func requireSuccessor(_ current: Keybag) throws(KeyManagementError) {
    let own = keybag.withLock { $0 }
    guard current.generation >= own.generation, current.hasOrEnded(keysOf: own) else { throw .keybagPutBack }
  }

  /// Whether a keybag has other class keys than the one that this daemon goes by.
  private func hasOtherKeys(_ other: Keybag) -> Bool {
    let own = keybag.withLock { $0 }
    return ProtectionClass.allCases.contains { own.keyIDs(of: $0) != other.keyIDs(of: $0) }
  }

  /// Puts a changed keybag in place, and goes on with it, also where something after that failed; but not with new class
  /// keys that a power cut may take back, or that no second copy has. `prepare` is called in between.
  func commit(_ change: borrowing KeybagChange, prepare: () -> Void = {}) throws(KeyManagementError) {
    let file = try KeybagFile(backing: backing)
    var failure: KeyManagementError?
    do throws(KeyManagementError) {
      try file.commit(change)
    } catch {
      guard error.isAfterChange, !change.addsKeys else { throw error }
      failure = error
    }
    prepare()
    adopt(change.keybag)
    if let failure { throw failure }
  }

  /// Goes on with a changed keybag, unless a later change came first.
  func adopt(_ changed: Keybag) {
    let isNewer = keybag.withLock { keybag in
      guard changed.generation >= keybag.generation else { return false }
      keybag = changed
      return true
    }
    if isNewer { controller.adopt(changed) }
  }

  /// What a client is told, after the log. A store that was erased, here or by a command beside this daemon, is one whose
  /// keys go from memory too. Not with the turn taken.
  func refusal(_ error: KeyManagementError) -> ControlError {
    log.warning("a secret or a change of keys was refused", metadata: ["reason": "\(error.code)"])
    guard let erased = try? readKeybag(), let time = erased.erasureTime else { return ControlError(error) }
    revokeErased(erased)
    return ControlError(KeyManagementError.storeErased(at: time))
  }
}
