import KeyManagement
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy

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
    let keybag = change.keybag
    // All that can fail comes before the change, which cannot be taken back.
    let successors = try opened.following(change).heldKeys(of: [fileClass])
    let failure = try commitOnDisk(change)
    return (
      LockMachine.Destruction(classes: [fileClass], successors: successors) { [self] in adopt(keybag) }, failure
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

  /// Takes all keys out of memory after the store was erased; returns when that is done, by whichever thread. Not with
  /// the turn taken.
  func revokeErased(_ erased: Keybag) {
    isRevoked.withLock { isRevoked in
      guard !isRevoked else { return }
      // An unlock that has opened the old keybag ends first, and so its keys go too; the next finds the store erased.
      takeTurn()
      keybag.withLock { $0 = erased }
      giveTurn()
      machine.destroy(
        LockMachine.Destruction(classes: ProtectionClass.allCases, successors: [:]) { [self] in adopt(erased) })
      log.notice("the store was erased")
      isRevoked = true
    }
  }

  // MARK: Erased by others

  /// Has a thread wait for an erasure of the store by someone else: wrong passcodes may be tried beside this daemon, by a
  /// command or by a mount that only reads. It sleeps until a keybag is put in place.
  func watchKeybag() {
    do throws(KeyManagementError) {
      let watch = try KeybagFile(backing: backing).watch()
      Thread(name: "keybag watch") { [self] in
        repeat { revokeIfErased() } while watch.wait()
      }.detach()
    } catch {
      log.warning(
        "an erasure by others is noticed when a secret is tried, not before", metadata: ["reason": "\(error)"])
    }
  }

  private func revokeIfErased() {
    guard let current = try? readKeybag(), current.erasureTime != nil,
      current.storeID == keybag.withLock({ $0.storeID })
    else { return }
    revokeErased(current)
  }

  /// Where others may write the backing directory, files under an old class key may come at any time.
  func requireOnlyWriter() throws(ControlError) {
    guard !options.isShared else {
      throw ControlError(.failed, "the store is mounted 'shared'; class keys are changed where nobody else writes it")
    }
  }
}
