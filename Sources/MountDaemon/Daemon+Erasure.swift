import DataProtectionCore
import KeyManagement

// Keys destroyed while the store is mounted: first on disk, then in memory, with everything that was read by them. What
// fails when the new keybag is in its place already is told when the rest is done.
extension Daemon {
  package func erase(_ fileClass: ProtectionClass, with secret: consuming UnlockSecret) throws(ControlError) {
    try requireWritable()
    try requireOnlyWriter()
    do throws(KeyManagementError) {
      let (destruction, failure) = try eraseOnDisk(fileClass, with: secret)
      machine.destroy(destruction)
      log.notice("the keys of a class were erased", metadata: ["class": "\(fileClass.name)"])
      if let failure { throw failure }
    } catch {
      throw refusal(error)
    }
  }

  private func eraseOnDisk(
    _ fileClass: ProtectionClass, with secret: borrowing UnlockSecret
  ) throws(KeyManagementError) -> (LockMachine.Destruction, KeyManagementError?) {
    var trial = try turn(toTry: secret)
    takeTurn()
    defer { giveTurn() }
    let opened = try openToChange(with: secret, &trial)
    let change = try opened.erasing(fileClass)
    let failure = try commitOnDisk(change)
    let keybag = change.keybag
    return (
      LockMachine.Destruction(
        classes: [fileClass], successors: try opened.following(change).heldKeys(of: [fileClass])
      ) { [self] in adopt(keybag) }, failure
    )
  }

  package func eraseAll() throws(ControlError) {
    try requireWritable()
    do throws(KeyManagementError) {
      let (erased, failure) = try eraseAllOnDisk()
      revokeErased(erased)
      if let failure { throw failure }
    } catch {
      throw ControlError(error)
    }
  }

  private func eraseAllOnDisk() throws(KeyManagementError) -> (Keybag, KeyManagementError?) {
    takeTurn()
    defer { giveTurn() }
    let current = try readKeybag()
    guard current.erasureTime == nil else { return (current, nil) }
    let change = try current.erased(deviceKey: deviceKey)
    return (change.keybag, try commitOnDisk(change))
  }

  /// Puts a keybag in place; returns what failed after that.
  private func commitOnDisk(_ change: borrowing KeybagChange) throws(KeyManagementError) -> KeyManagementError? {
    let file = try KeybagFile(backing: backing)
    do throws(KeyManagementError) {
      try file.commit(change)
      return nil
    } catch {
      guard error.isAfterChange else { throw error }
      return error
    }
  }

  /// Takes all keys out of memory after the store was erased.
  func revokeErased(_ erased: Keybag) {
    guard keybag.withLock({ $0.erasureTime }) == nil else { return }
    machine.destroy(
      LockMachine.Destruction(classes: ProtectionClass.allCases, successors: [:]) { [self] in adopt(erased) })
    log.notice("the store was erased")
  }

  /// Where others may write the backing directory, files under an old class key may come at any time.
  func requireOnlyWriter() throws(ControlError) {
    guard !options.isShared else {
      throw ControlError(.failed, "the store is mounted 'shared'; class keys are changed where nobody else writes it")
    }
  }
}
