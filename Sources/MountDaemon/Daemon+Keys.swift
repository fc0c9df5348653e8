import Cryptography
import DataProtection
import FileSystem
import KeyManagement
import StoreFormat
import Synchronization
import SystemPackage

// What needs a secret: unlocking, and changes of the keybag. One call at a time (`DerivationLock`).
extension Daemon {
  package func unlock(_ secret: consuming UnlockSecret) throws(ControlError) {
    do throws(KeyManagementError) {
      // Where another mount may write, it may also have changed the passcode.
      if options.hasOtherWriters { adopt(try readKeybag()) }
      let opened = try open(keybag.withLock { $0 }, with: secret)
      machine.unlock(try opened.heldKeys())
      log.notice("unlocked")
    } catch {
      throw refusal(error)
    }
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
      let opened = try open(try readKeybag(), with: secret)
      try commit(try make(opened))
    } catch {
      throw refusal(error)
    }
  }

  func requireWritable() throws(ControlError) {
    guard !options.isReadOnly else { throw ControlError(.readOnly, "the store is mounted read-only") }
  }

  func readKeybag() throws(KeyManagementError) -> Keybag {
    try Keybag(parsing: KeybagFile(backing: backing).read(), deviceKey: deviceKey)
  }

  func open(
    _ keybag: Keybag, with secret: borrowing UnlockSecret
  ) throws(KeyManagementError) -> OpenKeybag {
    let file = try KeybagFile(backing: backing)
    var known = attempts.withLock { $0 }
    defer { attempts.withLock { [known] in $0 = known } }
    return try file.open(keybag, with: secret, deviceKey: deviceKey, known: &known)
  }

  /// Puts a changed keybag in place, and goes on with it, also where something after that failed. `prepare` is called
  /// in between.
  func commit(_ change: borrowing KeybagChange, prepare: () -> Void = {}) throws(KeyManagementError) {
    let file = try KeybagFile(backing: backing)
    var failure: KeyManagementError?
    do throws(KeyManagementError) {
      try file.commit(change)
    } catch {
      switch error {
      case .keybagNotDurable, .previousKeybagKept, .effaceableSecretKept: failure = error
      default: throw error
      }
    }
    prepare()
    adopt(change.keybag)
    if let failure { throw failure }
  }

  func adopt(_ changed: Keybag) {
    keybag.withLock { $0 = changed }
    controller.adopt(changed)
  }

  /// What a client is told, after the log. A store that erased itself is one whose keys go from memory too.
  func refusal(_ error: KeyManagementError) -> ControlError {
    log.warning("a secret or a change of keys was refused", metadata: ["reason": "\(error.code)"])
    if case .storeErased = error, let erased = try? readKeybag(), erased.erasureTime != nil { revokeErased(erased) }
    return ControlError(error)
  }
}
