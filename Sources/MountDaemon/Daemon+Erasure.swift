import DataProtection
import KeyManagement

// Keys destroyed while the store is mounted: first on disk, then in memory, with everything that was read by them.
extension Daemon {
  package func erase(_ fileClass: ProtectionClass, with secret: consuming UnlockSecret) throws(ControlError) {
    try requireWritable()
    do throws(KeyManagementError) {
      let opened = try open(try readKeybag(), with: secret)
      let change = try opened.erasing(fileClass)
      try KeybagFile(backing: backing).commit(change)
      let keybag = change.keybag
      machine.destroy(
        LockMachine.Destruction(
          classes: [fileClass], successors: try opened.following(change).heldKeys(of: [fileClass])
        ) { [self] in adopt(keybag) })
      log.notice("the keys of a class were erased", metadata: ["class": "\(fileClass.name)"])
    } catch {
      throw refusal(error)
    }
  }

  package func eraseAll() throws(ControlError) {
    try requireWritable()
    do throws(KeyManagementError) {
      let change = try readKeybag().erased(deviceKey: deviceKey)
      try KeybagFile(backing: backing).commit(change)
      revokeErased(change.keybag)
    } catch {
      throw refusal(error)
    }
  }

  /// Takes all keys out of memory after the store was erased.
  func revokeErased(_ erased: Keybag) {
    guard keybag.withLock({ $0.erasureTime }) == nil else { return }
    machine.destroy(
      LockMachine.Destruction(classes: ProtectionClass.allCases, successors: [:]) { [self] in adopt(erased) })
    log.notice("the store was erased")
  }
}
