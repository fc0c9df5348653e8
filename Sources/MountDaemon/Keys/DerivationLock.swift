import Cryptography
import KeyManagement
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy

/// Lets one secret be tried at a time, so that many clients cannot make the daemon derive many keys at once, and few wait
/// for it, so that they leave locked memory and connections to others.
///
/// A closure cannot consume what it captures, so secrets go in by way of variables.
final class DerivationLock: Sendable {
  private let mutex = RankedMutex(.keyDerivation, ())
  private let calls: CallCount

  /// - Parameter limit: How many calls may wait or be carried out at a time.
  init(limit: Int) {
    calls = CallCount(limit: limit)
  }

  func unlock(_ control: any DaemonControl, _ secret: consuming UnlockSecret) throws(VarlinkError) {
    var waiting: UnlockSecret? = consume secret
    try attempt { () throws(ControlError) in try control.unlock(waiting.take()!) }
  }

  func changePasscode(
    _ control: any DaemonControl, from secret: consuming UnlockSecret, to newPasscode: consuming SecretBytes
  ) throws(VarlinkError) {
    var waiting: UnlockSecret? = consume secret
    var waitingNew: SecretBytes? = consume newPasscode
    try attempt { () throws(ControlError) in
      try control.changePasscode(from: waiting.take()!, to: waitingNew.take()!)
    }
  }

  func addKey(
    _ control: any DaemonControl, _ new: consuming UnlockSecret, label: String, with secret: consuming UnlockSecret
  ) throws(VarlinkError) {
    var waiting: UnlockSecret? = consume secret
    var waitingNew: UnlockSecret? = consume new
    try attempt { () throws(ControlError) in
      try control.addKey(waitingNew.take()!, label: label, with: waiting.take()!)
    }
  }

  func removeKey(
    _ control: any DaemonControl, _ id: [UInt8], with secret: consuming UnlockSecret
  ) throws(VarlinkError) {
    var waiting: UnlockSecret? = consume secret
    try attempt { () throws(ControlError) in try control.removeKey(id, with: waiting.take()!) }
  }

  func erase(
    _ control: any DaemonControl, _ fileClass: ProtectionClass, _ secret: consuming UnlockSecret
  ) throws(VarlinkError) {
    var waiting: UnlockSecret? = consume secret
    try attempt { () throws(ControlError) in try control.erase(fileClass, with: waiting.take()!) }
  }

  func eraseAll(_ control: any DaemonControl) throws(VarlinkError) {
    try attempt { () throws(ControlError) in try control.eraseAll() }
  }

  func beginRotation(
    _ control: any DaemonControl, _ fileClass: ProtectionClass, _ secret: consuming UnlockSecret
  ) throws(VarlinkError) -> any RotationControl {
    var waiting: UnlockSecret? = consume secret
    return try attempt { () throws(ControlError) in
      try control.beginRotation(of: fileClass, with: waiting.take()!)
    }
  }

  private func attempt<Result: Sendable>(_ body: () throws(ControlError) -> Result) throws(VarlinkError) -> Result {
    guard calls.begin() else { throw .control(.tooManySecrets(calls.limit)) }
    defer { calls.end() }
    do throws(ControlError) {
      return try mutex.withLock { (_) throws(ControlError) in try body() }
    } catch {
      throw .control(error)
    }
  }
}
