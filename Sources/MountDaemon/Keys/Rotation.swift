import BackingTree
import FileSystem
import KeyManagement
import Logging
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// A new class key, and the end of the old one: begun in the keybag, carried out file by file, finished in the keybag. A
// kill at any point leaves a keybag that has the keys of all files. The next rotation of the class finishes that first, and
// adds its own key then: so there are two at most, also where a file keeps each of them from its end.
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
      var isContinuing = false
      let opened = try openForRotation(of: fileClass, with: secret, &trial, &isContinuing)
      return Rotation(self, fileClass, opened, isContinuing: isContinuing)
    } catch {
      machine.endRotation()
      throw refusal(error)
    }
  }

  private func openForRotation(
    of fileClass: ProtectionClass, with secret: borrowing UnlockSecret, _ trial: inout PasscodeTurn,
    _ isContinuing: inout Bool
  ) throws(KeyManagementError) -> OpenKeybag {
    takeTurn()
    defer { giveTurn() }
    let opened = try openToChange(with: secret, &trial)
    isContinuing = opened.keybag.keyIDs(of: fileClass).count > 1
    guard isContinuing else { return try addKey(of: fileClass, to: opened) }
    let keys = try opened.heldKeys(of: [fileClass])
    // The last of those rotations may have ended before the second copy had its key.
    try KeybagFile(backing: backing).settle(opened.keybag, deviceKey: deviceKey)
    machine.replaceKeys(keys)
    adopt(opened.keybag)
    return opened
  }

  /// Gives a class one more key. With the turn taken.
  fileprivate func addKey(
    of fileClass: ProtectionClass, to opened: borrowing OpenKeybag
  ) throws(KeyManagementError) -> OpenKeybag {
    guard let change = try opened.beginningRotation(of: fileClass) else { throw .keybagFull }
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
  /// Whether another rotation was cut short, which is finished first.
  private let isContinuing: Bool
  /// `nil` when it has been wiped.
  private let opened: RankedMutex<OpenKeybag?>

  /// - Parameter opened: the keybag with the key to wrap under as the class's last.
  init(_ daemon: Daemon, _ fileClass: ProtectionClass, _ opened: consuming OpenKeybag, isContinuing: Bool) {
    self.daemon = daemon
    self.fileClass = fileClass
    self.isContinuing = isContinuing
    self.opened = RankedMutex(.rotation, opened)
  }

  deinit {
    // A property goes only after this; the lock that waits goes on before.
    opened.withLock { $0 = nil }
    daemon.machine.endRotation()
  }

  func run(_ report: @escaping (RotationStatus) -> Bool) throws(ControlError) {
    var progress = try replaceOldKey(report)
    if isContinuing, progress.kept == 0 {
      try addKey()
      progress = try replaceOldKey(report)
    }
    let metadata: Logger.Metadata = [
      "class": "\(fileClass.name)", "files": "\(progress.rewrapped)", "damaged": "\(progress.damaged)",
      "kept": "\(progress.kept)",
    ]
    if progress.kept == 0 {
      daemon.log.notice("a class key was rotated", metadata: metadata)
    } else {
      daemon.log.error("a rotation left files under the old class key, which is kept", metadata: metadata)
    }
    _ = report(RotationStatus(progress, isFinished: progress.kept == 0))
  }

  /// Wraps the keys of all files under the class's last key, and removes the others; where a file cannot be changed, they
  /// are kept.
  private func replaceOldKey(
    _ report: @escaping (RotationStatus) -> Bool
  ) throws(ControlError) -> RotationProgress {
    let rotation = KeyRotation(
      daemon.tree, of: fileClass, mayContinue: { [machine = daemon.machine] in machine.mayRotate },
      report: { report(RotationStatus($0, isFinished: false)) })
    let progress: RotationProgress
    do throws(Errno) {
      progress = try rotation.run()
      // The new records must be on the disk before the old key is gone.
      try daemon.backing.synchronizeFileSystem()
    } catch {
      throw failure(error)
    }
    guard progress.kept == 0 else { return progress }
    let refusal = removeOldKey()
    do throws(Errno) { try rotation.finish() } catch { throw failure(error) }
    if let refusal { throw refusal }
    return progress
  }

  /// A lock that has come does not wait for this.
  private func addKey() throws(ControlError) {
    guard daemon.machine.mayRotate else { throw failure(.interrupted) }
    daemon.takeTurn()
    defer { daemon.giveTurn() }
    guard daemon.machine.mayRotate else { throw failure(.interrupted) }
    do throws(KeyManagementError) {
      let keybag = try daemon.readKeybag()
      try daemon.requireSuccessor(keybag)
      let file = try KeybagFile(backing: daemon.backing)
      try opened.withLock { (opened) throws(KeyManagementError) in
        let current = try opened!.refreshed(keybag, in: file)
        opened = .some(try daemon.addKey(of: fileClass, to: current))
      }
    } catch {
      throw ControlError(error)
    }
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
      try daemon.requireSuccessor(keybag)
      let file = try KeybagFile(backing: daemon.backing)
      let change = try opened.withLock { (opened) throws(KeyManagementError) in
        try Self.finishing(opened!, of: fileClass, in: file, keybag)
      }
      try daemon.commit(change)
      return nil
    } catch {
      return ControlError(error)
    }
  }

  /// The keybag in place without the old key, if the class has the keys that it had when files were wrapped anew.
  private static func finishing(
    _ opened: borrowing OpenKeybag, of fileClass: ProtectionClass, in file: borrowing KeybagFile, _ current: Keybag
  ) throws(KeyManagementError) -> KeybagChange {
    try opened.refreshed(current, in: file)
      .finishingRotation(of: fileClass, from: opened.keybag.keyIDs(of: fileClass))
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
      files: progress.files, rewrapped: progress.rewrapped, damaged: progress.damaged, kept: progress.kept,
      isFinished: isFinished)
  }
}
