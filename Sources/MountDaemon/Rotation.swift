import DataProtection
import FileSystem
import KeyManagement
import SystemPackage

// A new class key, and the end of the old one: begun in the keybag, carried out file by file, finished in the keybag. A
// kill at any point leaves a keybag that has the keys of all files; the next rotation of the class goes on.
extension Daemon {
  package func beginRotation(
    of fileClass: ProtectionClass, with secret: consuming UnlockSecret
  ) throws(ControlError) -> any RotationControl {
    try requireWritable()
    guard machine.beginRotation() else {
      throw ControlError(
        .failed, "the mount is locked, or another rotation is running; a rotation needs all keys: unlock first")
    }
    do throws(KeyManagementError) {
      let opened = try open(try readKeybag(), with: secret)
      if let change = try opened.beginningRotation(of: fileClass) {
        let new = opened.following(change)
        let keys = try new.heldKeys(of: [fileClass])
        // In memory before anyone looks for it: files are made and changed meanwhile.
        try commit(change) { [machine] in machine.replaceKeys(keys) }
        log.notice("a class has a new key", metadata: ["class": "\(fileClass.name)"])
        return Rotation(self, fileClass, new)
      }
      return Rotation(self, fileClass, opened)
    } catch {
      machine.endRotation()
      throw refusal(error)
    }
  }
}

/// A rotation in a daemon. It holds the opened keybag until it ends, and a lock waits for that.
final class Rotation: RotationControl {
  private let daemon: Daemon
  private let fileClass: ProtectionClass
  private let opened: OpenKeybag

  init(_ daemon: Daemon, _ fileClass: ProtectionClass, _ opened: consuming OpenKeybag) {
    self.daemon = daemon
    self.fileClass = fileClass
    self.opened = opened
  }

  deinit {
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

  /// The keybag may have been changed meanwhile, a passcode say: the old key is removed from the one that is there.
  private func removeOldKey() -> ControlError? {
    do throws(KeyManagementError) {
      let current = try opened.refreshed(try daemon.readKeybag(), in: KeybagFile(backing: daemon.backing))
      let change = try current.finishingRotation(of: fileClass)
      try daemon.commit(change)
      return nil
    } catch {
      return daemon.refusal(error)
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
