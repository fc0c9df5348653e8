import DataProtectionCore
import FileSystem
import KeyManagement
import Synchronization
import SystemPackage

// A new class key, and the end of the old one: begun in the keybag, carried out file by file, finished in the keybag. A
// kill at any point leaves a keybag that has the keys of all files; the next rotation of the class goes on.
extension Daemon {
  package func beginRotation(
    of fileClass: ProtectionClass, with secret: consuming UnlockSecret
  ) throws(ControlError) -> any RotationControl {
    try requireWritable()
    try requireOnlyWriter()
    // A lock waits for a rotation that has begun.
    var trial: PasscodeTurn
    do throws(KeyManagementError) { trial = try turn(toTry: secret) } catch { throw refusal(error) }
    guard machine.beginRotation() else {
      throw ControlError(
        .failed, "the mount is locked, or another rotation is running; a rotation needs all keys: unlock first")
    }
    do throws(KeyManagementError) {
      return Rotation(self, fileClass, try newKey(of: fileClass, with: secret, &trial))
    } catch {
      machine.endRotation()
      throw refusal(error)
    }
  }

  private func newKey(
    of fileClass: ProtectionClass, with secret: borrowing UnlockSecret, _ trial: inout PasscodeTurn
  ) throws(KeyManagementError) -> OpenKeybag {
    takeTurn()
    defer { giveTurn() }
    let opened = try openToChange(with: secret, &trial)
    guard let change = try opened.beginningRotation(of: fileClass) else {
      let keys = try opened.heldKeys(of: [fileClass])
      // The last of those rotations may have ended before the second copy had its key.
      try KeybagFile(backing: backing).settle(opened.keybag, deviceKey: deviceKey)
      machine.replaceKeys(keys)
      adopt(opened.keybag)
      return opened
    }
    let new = opened.following(change)
    let keys = try new.heldKeys(of: [fileClass])
    // In memory before anyone looks for it: files are made and changed meanwhile.
    try commit(change) { [machine] in machine.replaceKeys(keys) }
    log.notice("a class has a new key", metadata: ["class": "\(fileClass.name)"])
    return new
  }
}

/// A rotation in a daemon. It holds the opened keybag until it ends, and a lock waits for that.
final class Rotation: RotationControl {
  private let daemon: Daemon
  private let fileClass: ProtectionClass
  /// `nil` when it has been wiped.
  private let opened: Mutex<OpenKeybag?>

  init(_ daemon: Daemon, _ fileClass: ProtectionClass, _ opened: consuming OpenKeybag) {
    self.daemon = daemon
    self.fileClass = fileClass
    self.opened = Mutex(opened)
  }

  deinit {
    // A property goes only after this; the lock that waits goes on before.
    opened.withLock { $0 = nil }
    daemon.machine.endRotation()
  }

  func run(_ report: @escaping (RotationStatus) -> Bool) throws(ControlError) {
    let rotation = KeyRotation(
      daemon.fileSystem, of: fileClass, mayContinue: { [machine = daemon.machine] in machine.mayRotate },
      report: { report(RotationStatus($0, isFinished: false)) })
    let progress: RotationProgress
    do throws(Errno) {
      progress = try rotation.run()
    } catch {
      throw failure(error)
    }
    // The new records must be on the disk before the old key is gone.
    do throws(Errno) { try daemon.backing.synchronizeFileSystem() } catch { throw failure(error) }
    let refusal = removeOldKey()
    do throws(Errno) { try rotation.finish() } catch { throw failure(error) }
    if let refusal { throw refusal }
    daemon.log.notice(
      "a class key was rotated",
      metadata: [
        "class": "\(fileClass.name)", "files": "\(progress.rewrapped)", "damaged": "\(progress.damaged)",
      ])
    _ = report(RotationStatus(progress, isFinished: true))
  }

  /// The keybag may have been changed meanwhile, a passcode say: the old key is removed from the one that is there. A lock
  /// that has come does not wait for that.
  private func removeOldKey() -> ControlError? {
    guard daemon.machine.mayRotate else { return failure(.interrupted) }
    daemon.takeTurn()
    defer { daemon.giveTurn() }
    guard daemon.machine.mayRotate else { return failure(.interrupted) }
    do throws(KeyManagementError) {
      let keybag = try daemon.readKeybag()
      let file = try KeybagFile(backing: daemon.backing)
      let change = try opened.withLock { (opened) throws(KeyManagementError) in
        try opened!.refreshed(keybag, in: file).finishingRotation(of: fileClass)
      }
      try daemon.commit(change)
      return nil
    } catch {
      return ControlError(error)
    }
  }

  private func failure(_ error: Errno) -> ControlError {
    switch error {
    case .interrupted, .permissionDenied:
      ControlError(.rotationInterrupted, "the rotation was interrupted; run it again to go on with it")
    default:
      ControlError(
        .rotationInterrupted, "the rotation stopped (\(error)); both class keys are kept, and it can be gone on with")
    }
  }
}

extension RotationStatus {
  init(_ progress: RotationProgress, isFinished: Bool) {
    self.init(
      files: progress.files, rewrapped: progress.rewrapped, damaged: progress.damaged, isFinished: isFinished)
  }
}
