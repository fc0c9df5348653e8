import KeyManagement
import MountDaemon
import ProtectfsClient
import ProtectfsPolicy
import TreeCopy

/// The rotation of a class on a mount, shown as it goes on. An interrupt ends this process, and with it the rotation.
struct ClassRotation {
  let fileClass: ProtectionClass
  let mountPoint: String
  /// Whether it is reported in JSON, an object a line.
  var isJSON = false

  func run(with secret: borrowing UnlockSecret) throws {
    let progress = TreeProgress("files looked at", isShown: !isJSON) { TreeTotal(of: mountPoint, while: $0).files }
    var last = RotationStatus(files: 0, rewrapped: 0, damaged: 0, isFinished: false)
    func rest() -> String { ", \(last.rewrapped) wrapped anew" }
    do throws(ControlError) {
      defer { progress.finish(last.files, rest()) }
      try unsafe secret.withSecret { (secret) throws(ControlError) in
        try unsafe DaemonConnection(mountPoint: mountPoint).rotate(fileClass, with: secret) { status in
          last = status
          if isJSON {
            try? JSONOutput.showLine(status)
          } else if !status.isFinished {
            progress.show(last.files, rest())
          }
          return true
        }
      }
    } catch {
      if error.code == .failed, let kept = last.kept, kept > 0 { throw CommandFailure(.partial, error.message) }
      throw error
    }
    guard !isJSON else { return }
    print("Class \(fileClass.letter) has a new key; \(last.rewrapped) files were wrapped anew.")
    if last.damaged > 0 {
      CommandFailure.report(
        "\(last.damaged) files have damaged records and open with no key; 'protectfs fsck' names them")
    }
  }
}
