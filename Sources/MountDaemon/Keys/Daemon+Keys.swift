import Cryptography
import FileSystem
import KeyManagement
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import SystemPackage

// What needs a secret: unlocking, and changes of the keybag. One call at a time (`DerivationLock`).
extension Daemon {
  package func beginUnlock() -> UnlockBeginning { machine.beginUnlock() }

  package func unlock(
    _ secret: borrowing UnlockSecret, _ beginning: UnlockBeginning, isCounted: Bool = true
  ) throws(ControlError) {
    var result = LockMachine.UnlockResult.locking
    do throws(KeyManagementError) {
      while result == .locking {
        // Not with the keybag's mutex: a lock may be waiting for a rotation, and that one for the mutex.
        let mayGoOn = machine.waitUntilUnlockable(beginning)
        result = mayGoOn ? try unlockNow(secret, beginning, isCounted) : .cancelled
      }
    } catch {
      throw refusal(error)
    }
    guard result == .unlocked else {
      log.notice("not unlocked: a lock came first")
      throw ControlError(.unlockCancelled, "a lock was asked for while the secret was being checked; unlock again")
    }
    tree.resumeRekeys()
    log.notice("unlocked")
  }

  private func unlockNow(
    _ secret: borrowing UnlockSecret, _ beginning: UnlockBeginning, _ isCounted: Bool
  ) throws(KeyManagementError) -> LockMachine.UnlockResult {
    var attempt = try attempt(with: secret, isCounted: isCounted)
    var lost: LostClasses?
    let result = try withKeybag { (file) throws(KeyManagementError) in
      let own = keybag.withLock { $0 }
      // Another mount that writes may also have changed the passcode.
      let current = options.writers == .sole && !deviceKey.isOfHost ? own : try readKeybag(file)
      guard current.storeID == own.storeID else { throw .foreignKeybag }
      let opened = try open(current, in: file, with: secret, &attempt)
      let isOwn = current == own
      // A host that was removed and is one again has not those of class D either.
      let keys = try isOwn && !opened.isOfHost ? opened.heldKeys() : opened.heldKeys(of: ProtectionClass.allCases)
      let result =
        try isOwn
        ? machine.unlock(keys, beginning, without: opened.missingClasses)
        : unlock(withOthers: opened, keys, beginning)
      if let seal = try opened.hostSealKey() { hostSeal.withLock { $0 = seal } }
      if result == .unlocked, opened.isOfHost { lost = LostClasses(current, after: own, keys, deviceKey.host) }
      return result
    }
    if let lost { destroy(lost) }
    return result
  }

  /// Unlocks with a keybag that others have put in place. All of it has authenticated by now, and nothing of it is
  /// taken over unless all is, since its keys all unwrap.
  private func unlock(
    withOthers opened: borrowing OpenKeybag, _ keys: [ProtectionClass: [HeldKey]], _ beginning: UnlockBeginning
  ) throws(KeyManagementError) -> LockMachine.UnlockResult {
    let changed = opened.keybag
    // Before, nothing has shown that the one which the mount goes by is the store's.
    if hostSeal.withLock({ $0 != nil }) { try requireSuccessor(changed) }
    if (try? requireSuccessor(changed)) == nil {
      log.error("another keybag was put in place, which may lack class keys")
    }
    return machine.unlock(keys, beginning, without: opened.missingClasses) { [self] in
      keybag.withLock { $0 = changed }
      controller.adopt(changed, with: keys)
    }
  }

  package func changePasscode(
    from old: borrowing UnlockSecret, to new: consuming SecretBytes, isCounted: Bool = true
  ) throws(ControlError) {
    guard !deviceKey.isOfHost else {
      throw ControlError(
        .invalidRequest,
        "this is the mount of a host, whose own passcode is changed with its file: protectfs passcode change "
          + "--device-key FILE.host")
    }
    try change(.changePasscode(new), with: old, isCounted: isCounted)
    log.notice("the passcode was changed")
  }

  package func addKey(
    _ new: consuming UnlockSecret, label: String, with secret: borrowing UnlockSecret
  ) throws(ControlError) {
    try change(.addProtector(NewProtector(new, label: label)), with: secret)
    log.notice("a protector was added")
  }

  package func removeKey(_ id: [UInt8], with secret: borrowing UnlockSecret) throws(ControlError) {
    try requireOther(than: id)
    try change(.removeProtector(id), with: secret)
    log.notice("a protector was removed")
  }

  package func addHost(
    _ code: borrowing SecretBytes, classes: [ProtectionClass]?, with secret: borrowing UnlockSecret
  ) throws(ControlError) {
    let storeID = keybag.withLock { $0.storeID }
    let acceptance: HostAcceptance
    do throws(KeyManagementError) {
      acceptance = try HostAcceptance(code, in: backing, of: storeID)
    } catch {
      throw refusal(error)
    }
    let id = acceptance.id
    try change(acceptance.edit(classes), with: secret)
    log.notice("a host was added", metadata: ["host": "\(id.hexadecimal)"])
    HostAcceptance.finish(id, in: backing, of: storeID)
  }

  package func setHost(
    _ id: [UInt8], classes: [ProtectionClass], with secret: borrowing UnlockSecret
  ) throws(ControlError) {
    try requireOther(than: id)
    try change(.setHost(id, classes: classes), with: secret)
    log.notice("a host has other classes", metadata: ["host": "\(id.hexadecimal)"])
  }

  /// What a host has in memory is not to outlast what the keybag has for it.
  private func requireOther(than id: [UInt8]) throws(ControlError) {
    guard deviceKey.host?.record.id == id else { return }
    throw ControlError(
      .invalidRequest, "this mount is the host's own: change it where the store was made, with this mount unmounted")
  }

  private func change(
    _ edit: consuming KeybagEdit, with secret: borrowing UnlockSecret, isCounted: Bool = true
  ) throws(ControlError) {
    try requireWritable()
    do throws(KeyManagementError) {
      var attempt = try attempt(with: secret, isCounted: isCounted)
      try withKeybag { (file) throws(KeyManagementError) in
        try goOn(with: file.apply(edit, to: openToChange(in: file, with: secret, &attempt)))
      }
    } catch {
      throw refusal(error)
    }
  }

  func requireWritable() throws(ControlError) {
    guard !options.isReadOnly else { throw ControlError(.readOnly, "the store is mounted read-only") }
  }

  // MARK: The keybag in its place

  /// Calls `body` while nobody else in this process reads the keybag to change it. `body` waits for nothing that a lock
  /// may hold up.
  func withKeybag<Result: ~Copyable & Sendable>(
    _ body: (borrowing KeybagFile) throws(KeyManagementError) -> Result
  ) throws(KeyManagementError) -> Result {
    try keybagFile.withLock { (_) throws(KeyManagementError) in try body(openKeybagFile()) }
  }

  func openKeybagFile() throws(KeyManagementError) -> KeybagFile {
    try KeybagFile(backing: backing, host: deviceKey.host)
  }

  func readKeybag(_ file: borrowing KeybagFile) throws(KeyManagementError) -> Keybag {
    try Keybag(parsing: file.read(), deviceKey: deviceKey)
  }

  /// The keybag in place, which is this daemon's, or one that a change has made of it.
  ///
  /// - Throws: `keybagPutBack` where it is not: a change of it would lose keys.
  func readSuccessor(_ file: borrowing KeybagFile) throws(KeyManagementError) -> Keybag {
    let current = try readKeybag(file)
    try requireSuccessor(current)
    return current
  }

  private func requireSuccessor(_ current: Keybag) throws(KeyManagementError) {
    let own = keybag.withLock { $0 }
    guard current.generation >= own.generation, current.hasOrEnded(keysOf: own) else { throw .keybagPutBack }
  }

  /// Begins an unlock attempt, after those of other processes. Before ``withKeybag(_:)``, since a lock of the mount may
  /// wait for that.
  func attempt(
    with secret: borrowing UnlockSecret, isCounted: Bool = true
  ) throws(KeyManagementError) -> UnlockAttempt {
    try openKeybagFile().attempt(with: secret, isCounted: isCounted)
  }

  /// Opens the keybag that is in place, to change it.
  func openToChange(
    in file: borrowing KeybagFile, with secret: borrowing UnlockSecret, _ attempt: inout UnlockAttempt
  ) throws(KeyManagementError) -> OpenKeybag {
    try open(readSuccessor(file), in: file, with: secret, &attempt)
  }

  private func open(
    _ keybag: Keybag, in file: borrowing KeybagFile, with secret: borrowing UnlockSecret,
    _ attempt: inout UnlockAttempt
  ) throws(KeyManagementError) -> OpenKeybag {
    var known = attempts.withLock { $0 }
    defer { attempts.withLock { [known] in $0 = known } }
    return try file.open(keybag, with: secret, deviceKey: deviceKey, known: &known, &attempt)
  }

  /// Goes on with the keybag that an edit has put in place; its keys come into memory before anyone looks for them.
  ///
  /// - Throws: what failed after that.
  func goOn(with applied: borrowing AppliedEdit) throws(KeyManagementError) {
    // Those of a rotation that could not be begun, too: the keybag in place may have them already.
    if hasOtherKeys(applied.keybag) { replaceKeys(applied.keys) }
    adopt(applied.keybag)
    if let failure = applied.failure { throw failure }
  }

  /// Takes other keys of classes in place of those in memory: on a host, which may have been unlocked with its own
  /// passcode alone, of no others.
  func replaceKeys(_ keys: [ProtectionClass: [HeldKey]]) {
    machine.replaceKeys(deviceKey.isOfHost ? keys.filter { controller.holdsKey(of: $0.key) } : keys)
  }

  /// Whether a keybag has other class keys than the one that this daemon goes by.
  func hasOtherKeys(_ other: Keybag) -> Bool {
    let own = keybag.withLock { $0 }
    return ProtectionClass.allCases.contains { own.keyIDs(of: $0) != other.keyIDs(of: $0) }
  }

  /// Goes on with a changed keybag, unless a later change came first; returns whether it does.
  @discardableResult
  func adopt(_ changed: Keybag) -> Bool {
    let isNewer = keybag.withLock { keybag in
      guard changed.generation >= keybag.generation else { return false }
      keybag = changed
      return true
    }
    if isNewer { controller.adopt(changed) }
    return isNewer
  }

  /// The error for a client, after the log. A store that was erased, here or by a command beside this daemon, is one
  /// whose keys go from memory too. Not within ``withKeybag(_:)``.
  func refusal(_ error: KeyManagementError) -> ControlError {
    log.warning("a secret or a change of keys was refused", metadata: ["reason": "\(error.code)"])
    if error == .hostUnknown { wipeIfRemoved() }
    guard let erased = try? readKeybag(openKeybagFile()), let time = erased.erasureTime else {
      return ControlError(error)
    }
    wipeErased(erased)
    return ControlError(KeyManagementError.storeErased(at: time))
  }
}
