import BackingTree
import FileSystem
import KeyManagement
import Logging
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// A new class key, and the end of the old one: begun in the keybag, carried out file by file, finished in the keybag. A
// kill at any point leaves a keybag that has the keys of all files. The next rotation of the class finishes that first,
// and adds its own key then: so there are two at most, even if a file that cannot be changed keeps either.
extension Daemon {
  package func beginRotation(
    of fileClass: ProtectionClass, with secret: borrowing UnlockSecret
  ) throws(ControlError) -> any RotationControl {
    try requireWritable()
    try requireOnlyWriter()
    // A lock waits for a rotation that has begun.
    var attempt: UnlockAttempt
    do throws(KeyManagementError) { attempt = try self.attempt(with: secret) } catch { throw refusal(error) }
    guard machine.beginRotation() else {
      throw ControlError(
        .failed, "the mount is locked, or another rotation is running; a rotation needs all keys: unlock first")
    }
    do throws(KeyManagementError) {
      var isContinuing = false
      let opened = try withKeybag { (file) throws(KeyManagementError) in
        let opened = try openToChange(in: file, with: secret, &attempt)
        return try beginRotation(of: fileClass, in: file, opened, &isContinuing)
      }
      // A lock that came meanwhile may not have waited for this.
      if let rotation = Rotation(self, fileClass, opened, isContinuing: isContinuing) { return rotation }
    } catch {
      machine.endRotation()
      throw refusal(error)
    }
    machine.endRotation()
    throw Rotation.failure(.interrupted)
  }

  private func beginRotation(
    of fileClass: ProtectionClass, in file: borrowing KeybagFile, _ opened: consuming OpenKeybag,
    _ isContinuing: inout Bool
  ) throws(KeyManagementError) -> OpenKeybag {
    guard !opened.isOfHost else { throw .hostsChangeNothing }
    if let united = try file.unite(opened) {
      try goOn(with: united)
      opened = united.takeOpened()
    }
    isContinuing = opened.keybag.keyIDs(of: fileClass).count > 1
    guard isContinuing else { return try addKey(of: fileClass, to: opened, in: file) }
    let keys = try opened.heldKeys(of: [fileClass])
    // The last of those rotations may have ended before the second copy had its key.
    try file.repair(opened.keybag, deviceKey: deviceKey)
    replaceKeys(keys)
    adopt(opened.keybag)
    return opened
  }

  /// Gives a class one more key. Within ``withKeybag(_:)``.
  fileprivate func addKey(
    of fileClass: ProtectionClass, to opened: borrowing OpenKeybag, in file: borrowing KeybagFile
  ) throws(KeyManagementError) -> OpenKeybag {
    let applied = try file.apply(.beginRotation(fileClass), to: opened)
    try goOn(with: applied)
    log.notice("a class has a new key", metadata: ["class": "\(fileClass.name)"])
    return applied.takeOpened()
  }
}

/// A rotation in a daemon. It holds the opened keybag until it ends, or a lock wipes that.
final class Rotation: RotationControl {
  private let daemon: Daemon
  private let fileClass: ProtectionClass
  /// Whether another rotation was cut short, which is finished first.
  private let isContinuing: Bool
  private let keybag: RotatedKeybag

  /// `nil` where the mount is being locked.
  ///
  /// - Parameter opened: the keybag with the key to wrap under as the class's last.
  init?(_ daemon: Daemon, _ fileClass: ProtectionClass, _ opened: consuming OpenKeybag, isContinuing: Bool) {
    let keybag = RotatedKeybag(opened)
    guard daemon.machine.holdRotationKey({ keybag.wipe() }) else { return nil }
    self.daemon = daemon
    self.fileClass = fileClass
    self.isContinuing = isContinuing
    self.keybag = keybag
  }

  deinit {
    // A property goes only after this; the lock that waits goes on before.
    _ = keybag.wipe()
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

  /// Wraps the keys of all files under the class's last key, and removes the others; where a file cannot be changed,
  /// they are kept.
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
      throw Self.failure(error)
    }
    guard progress.kept == 0 else { return progress }
    let refusal = removeOldKey()
    do throws(Errno) {
      try rotation.finish()
    } catch {
      daemon.log.warning(
        "files that were opened just then have their old records in memory until they are opened again",
        metadata: ["error": "\(error)"])
    }
    if let refusal { throw refusal }
    return progress
  }

  /// A lock that has come does not wait for this.
  private func addKey() throws(ControlError) {
    let refusal = change { [daemon, fileClass] (opened, file) throws(KeyManagementError) in
      opened = try daemon.addKey(of: fileClass, to: opened.refreshed(daemon.readSuccessor(file), in: file), in: file)
    }
    if let refusal { throw refusal }
  }

  /// The keybag may have been changed meanwhile, a passcode say: the old key is removed from the one that is there, if
  /// the class has the keys that it had when files were wrapped anew. A lock that has come does not wait for that.
  private func removeOldKey() -> ControlError? {
    change { [daemon, fileClass] (opened, file) throws(KeyManagementError) in
      let known = opened.keybag.keyIDs(of: fileClass)
      let current = try opened.refreshed(daemon.readSuccessor(file), in: file)
      try daemon.goOn(with: file.apply(.finishRotation(fileClass, from: known), to: current))
    }
  }

  /// Changes the keybag in place, unless the mount is being locked, or was since; returns why it was not.
  private func change(
    _ body: (inout OpenKeybag, borrowing KeybagFile) throws(KeyManagementError) -> Void
  ) -> ControlError? {
    guard daemon.machine.mayRotate else { return Self.failure(.interrupted) }
    do throws(KeyManagementError) {
      let isChanged = try daemon.withKeybag { (file) throws(KeyManagementError) in
        guard daemon.machine.mayRotate else { return false }
        return try keybag.opened.withLock { (opened) throws(KeyManagementError) in
          guard opened != nil else { return false }
          try body(&opened!, file)
          return true
        }
      }
      return isChanged ? nil : Self.failure(.interrupted)
    } catch {
      return ControlError(error)
    }
  }

  fileprivate static func failure(_ error: Errno) -> ControlError {
    switch error {
    case .interrupted, .permissionDenied:
      ControlError(.rotationInterrupted, "the rotation was interrupted; run it again to go on with it")
    default:
      ControlError(
        .rotationInterrupted, "the rotation stopped (\(error)); both class keys are kept; run it again to go on")
    }
  }
}

/// The opened keybag of a rotation.
private final class RotatedKeybag: Sendable {
  /// `nil` when it has been wiped.
  let opened: RankedMutex<OpenKeybag?>

  init(_ opened: consuming OpenKeybag) {
    self.opened = RankedMutex(.rotation, opened)
  }

  /// Wipes it, unless it is being used; returns whether it has gone.
  func wipe() -> Bool {
    opened.withLockIfAvailable { $0 = nil } != nil
  }
}

extension RotationStatus {
  init(_ progress: RotationProgress, isFinished: Bool) {
    self.init(
      files: progress.files, rewrapped: progress.rewrapped, damaged: progress.damaged, kept: progress.kept,
      isFinished: isFinished)
  }
}
