import Cryptography
import KeyManagement
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat

// Calls that bring secrets.
extension ControlConnection {
  /// Whether a call says that a login program has accepted its passcode, so that a wrong one does not count. Root alone
  /// may say so: to others it would be a way to guess past the delays.
  ///
  /// - Throws: `invalidParameter` where somebody else does.
  func isOfLogin(_ call: borrowing VarlinkCall) throws(VarlinkError) -> Bool {
    struct Parameters: Decodable { var login: Bool? }
    guard try call.parameters(as: Parameters.self)?.login == true else { return false }
    guard (try? socket.peerUser()) == 0 else { throw .invalidParameter("login") }
    return true
  }

  func addKey(_ call: inout VarlinkCall) throws(VarlinkError) {
    struct Parameters: Decodable { var label: String? }
    let label = try call.parameters(as: Parameters.self)?.label
    let new = try call.secrets.new.take("newPasscode")
    let name = label ?? new.kind.label
    let secret = try call.secrets.old.take()
    try derivation.attempt(new) { (new: consuming UnlockSecret) throws(ControlError) in
      try control.addKey(new, label: name, with: secret)
    }
  }

  func removeKey(_ call: inout VarlinkCall) throws(VarlinkError) {
    struct Parameters: Decodable { var id: String }
    guard let text = try call.parameters(as: Parameters.self)?.id, let id = [UInt8](hexadecimal: text) else {
      throw .invalidParameter("id")
    }
    let secret = try call.secrets.old.take()
    try derivation.attempt { () throws(ControlError) in try control.removeKey(id, with: secret) }
  }

  func addHost(_ call: inout VarlinkCall) throws(VarlinkError) {
    struct Parameters: Decodable { var classes: [ProtectionClass]? }
    let classes = try call.parameters(as: Parameters.self)?.classes
    guard let text = call.secrets.pairingCode.take(), text.count > 0 else { throw .invalidParameter("pairingCode") }
    let secret = try call.secrets.old.take()
    try derivation.attempt(text) { (text: consuming SecretBytes) throws(ControlError) in
      try control.addHost(text, classes: classes, with: secret)
    }
  }

  func setHost(_ call: inout VarlinkCall) throws(VarlinkError) {
    struct Parameters: Decodable { var id: String, classes: [ProtectionClass] }
    guard let parameters = try call.parameters(as: Parameters.self), let id = [UInt8](hexadecimal: parameters.id) else {
      throw .invalidParameter("id")
    }
    let secret = try call.secrets.old.take()
    try derivation.attempt { () throws(ControlError) in
      try control.setHost(id, classes: parameters.classes, with: secret)
    }
  }

  /// Locks, and waits for the other hosts.
  func lockHosts(_ call: borrowing VarlinkCall) throws(VarlinkError) -> [UInt8] {
    let parameters = try call.parameters(as: HostLockParameters.self)
    let seconds = parameters?.timeout ?? 30
    guard (0...3600).contains(seconds) else { throw .invalidParameter("timeout") }
    let hasRoom = streams.begin()
    defer { derivation.waitForTrial() }
    defer { if hasRoom { streams.end() } }
    let content: HostLockRecord.Content =
      parameters?.everyClass == true ? .lockEveryClass : parameters?.inactive == true ? .lockInactive : .lock
    var silent: [String] = []
    try VarlinkError.translating { () throws(ControlError) in
      silent = try control.lockHosts(content, within: .seconds(hasRoom ? seconds : 0))
      if !hasRoom { throw .tooManyWaitForLock(streams.limit) }
    }
    return VarlinkReply(HostLockReply(silent: silent)).encoded()
  }

  static func fileClass(_ call: borrowing VarlinkCall) throws(VarlinkError) -> ProtectionClass {
    guard let parameters = try call.parameters(as: ClassParameters.self) else { throw .invalidParameter("class") }
    return parameters.protectionClass
  }

  /// Runs a rotation, and tells how far it has come a few times a second. A client that goes ends it.
  func rotate(_ call: inout VarlinkCall) throws(MessageError) {
    let reply: [UInt8]
    do throws(VarlinkError) {
      let last = try run(beginRotation(&call))
      reply = VarlinkReply(last).encoded()
    } catch {
      reply = error.reply
    }
    try send(reply)
  }

  /// In a function of its own, so that the secret goes before the rotation runs.
  private func beginRotation(_ call: inout VarlinkCall) throws(VarlinkError) -> any RotationControl {
    let fileClass = try Self.fileClass(call)
    let secret = try call.secrets.old.take()
    return try derivation.attempt { () throws(ControlError) in
      try control.beginRotation(of: fileClass, with: secret)
    }
  }

  private func run(_ rotation: any RotationControl) throws(VarlinkError) -> RotationStatus {
    var last = RotationStatus(files: 0, rewrapped: 0, damaged: 0, isFinished: false)
    var next = MonotonicClock.now
    // The closure does not outlive this call.
    let sender = RotationSender(self.socket.rawValue)
    try VarlinkError.translating { () throws(ControlError) in
      try rotation.run { status in
        last = status
        guard !status.isFinished, MonotonicClock.now >= next else { return true }
        next = MonotonicClock.now + .milliseconds(250)
        return sender.send(VarlinkReply(status, continues: true).encoded())
      }
    }
    return last
  }
}

/// Sends replies from a closure that cannot hold the connection.
private struct RotationSender {
  private let descriptor: CInt

  init(_ descriptor: CInt) {
    self.descriptor = descriptor
  }

  /// Sends a message; returns whether the client is still there.
  func send(_ message: [UInt8]) -> Bool {
    let socket = LocalSocket(owning: descriptor)
    let result: Void? = try? socket.send(message)
    _ = socket.release()
    return result != nil
  }
}

extension CallSecrets.Group {
  /// The one secret of the group.
  ///
  /// - Throws: `invalidParameter` where there is none, more than one, or one that cannot be.
  mutating func take(_ name: String = "passcode") throws(VarlinkError) -> UnlockSecret {
    guard count == 1 else { throw .invalidParameter(name) }
    if let secret = passcode.take() { return .passcode(try Self.requireContent(secret, name)) }
    if let secret = tpmPasscode.take() { return .tpmPasscode(try Self.requireContent(secret, name)) }
    if let secret = recoveryKey.take() { return .recoveryKey(try Self.requireContent(secret, "recoveryKey")) }
    guard let text = keyFile.take(), let content = SecretBytes(hexadecimal: text) else {
      throw .invalidParameter("keyFile")
    }
    return .keyFile(content)
  }

  private static func requireContent(
    _ secret: consuming SecretBytes, _ name: String
  ) throws(VarlinkError) -> SecretBytes {
    guard secret.count > 0 else { throw .invalidParameter(name) }
    return secret
  }
}
