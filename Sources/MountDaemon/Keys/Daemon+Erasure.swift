import KeyManagement
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy

// Keys destroyed while the store is mounted: first on disk, then in memory, with everything that was read by them. What
// fails when the new keybag is in its place already is reported when the rest is done.
extension Daemon {
  package func prepareErasure() throws(ControlError) {
    try requireWritable()
    try requireOnlyWriter()
    do throws(KeyManagementError) { try Store.prepareErasure(of: backing) } catch { throw refusal(error) }
  }

  package func erase(_ fileClass: ProtectionClass, with secret: borrowing UnlockSecret) throws(ControlError) {
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

  func eraseOnDisk(
    _ fileClass: ProtectionClass, with secret: borrowing UnlockSecret
  ) throws(KeyManagementError) -> (LockMachine.Destruction, KeyManagementError?) {
    var attempt = try attempt(with: secret)
    return try withKeybag { (file) throws(KeyManagementError) in
      let opened = try openToChange(in: file, with: secret, &attempt)
      // Of what was prepared, only the rest is left to do.
      try Store.prepareErasure(of: backing)
      let applied = try file.apply(.eraseClass(fileClass), to: opened)
      let keybag = applied.keybag
      // Keys of other classes that the second copy had.
      if hasOtherKeys(keybag) { replaceKeys(applied.keys.filter { $0.key != fileClass }) }
      let successors = applied.keys.filter { $0.key == fileClass }
      return (
        LockMachine.Destruction(classes: [fileClass]) { [self] in
          adopt(keybag)
          // A rotation may have changed the keybag since, or others have erased the store.
          let ids = self.keybag.withLock { $0.keyIDs(of: fileClass) }
          return ids == keybag.keyIDs(of: fileClass) ? successors : [:]
        },
        applied.failure
      )
    }
  }

  package func eraseAll() throws(ControlError) {
    try requireWritable()
    do throws(KeyManagementError) {
      let erasure = try withKeybag { (file) throws(KeyManagementError) in
        try file.erase(keybag.withLock { $0 }, deviceKey: deviceKey)
      }
      wipeErased(erasure.tombstone)
      if let failure = erasure.failure { throw failure }
    } catch {
      throw ControlError(error)
    }
  }

  /// Takes all keys out of memory after the store was erased; returns when that is done, by whichever thread. Not
  /// within ``withKeybag(_:)``.
  func wipeErased(_ erased: Keybag) {
    isErased.withLock { isErased in
      guard !isErased else { return }
      // An unlock that has opened the old keybag ends first, and so its keys go too; the next finds the store erased.
      keybagFile.withLock { _ in keybag.withLock { $0 = erased } }
      machine.destroy(
        LockMachine.Destruction(classes: ProtectionClass.allCases) { [self] in
          adopt(erased)
          return [:]
        })
      log.notice("the store was erased")
      isErased = true
    }
  }

  /// Where others may write the backing directory, files under an old class key may come at any time.
  func requireOnlyWriter() throws(ControlError) {
    guard !options.isShared else {
      throw ControlError(.failed, "the store is mounted 'shared'; class keys are changed where nobody else writes it")
    }
  }
}
