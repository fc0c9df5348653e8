import Cryptography
import FoundationEssentials
import ProtectfsClient
import ProtectfsPolicy

@testable import MountDaemon

/// A call as it came: its secrets are taken out, and a decoder sees the rest.
func fuzzControl(_ bytes: [UInt8]) {
  var buffer = bytes + Array("guard".utf8)
  let secrets = scan(&buffer, count: bytes.count)
  let scanned = Array(buffer.prefix(bytes.count))
  precondition(buffer.suffix(5).elementsEqual("guard".utf8), "nothing behind the message is touched")
  checkOverwritten(bytes, scanned)

  var message = bytes
  let call = readCall(&message)
  precondition(message == scanned, "a call is scanned in one way")
  guard let secrets else {
    precondition(call == nil, "what is no JSON is no call")
    return
  }
  let before = try? JSONDecoder().decode(JSONValue.self, from: Data(bytes))
  let after = try? JSONDecoder().decode(JSONValue.self, from: Data(scanned))
  precondition((before == nil) == (after == nil), "asterisks leave JSON")
  if let before, let after {
    guard case .object = after else { preconditionFailure("a call is an object") }
    if hasPlainNames(bytes) {
      precondition(before.isHidden(in: after), "secrets are hidden, and nothing else")
      checkTaken(secrets, before)
    }
  }
  // A number that is spelled wrong is found where it is used.
  if let call {
    _ = try? call.parameters(as: LockParameters.self)
    _ = try? call.parameters(as: ClassParameters.self)
  }
}

private func scan(_ buffer: inout [UInt8], count: Int) -> CallSecrets? {
  do throws(MessageError) {
    var bytes = buffer.mutableSpan
    return try unsafe bytes.withUnsafeMutableBytes { (buffer) throws(MessageError) in
      try unsafe SecretScanner.takeSecrets(from: UnsafeMutableRawBufferPointer(rebasing: buffer[..<count]))
    }
  } catch { return nil }
}

private func readCall(_ message: inout [UInt8]) -> VarlinkCall? {
  do throws(MessageError) {
    var bytes = message.mutableSpan
    return try unsafe bytes.withUnsafeMutableBytes { (bytes) throws(MessageError) in try unsafe VarlinkCall(bytes) }
  } catch { return nil }
}

/// What differs became asterisks.
private func checkOverwritten(_ before: [UInt8], _ after: [UInt8]) {
  precondition(before.count == after.count)
  for (old, new) in zip(before, after) where old != new { precondition(new == UInt8(ascii: "*")) }
}

/// The decoder takes some names for the same that differ for the scanner, as `K` and the sign for kelvin.
private func hasPlainNames(_ bytes: [UInt8]) -> Bool {
  bytes.allSatisfy { $0 < 0x80 && $0 != UInt8(ascii: "\\") }
}

/// Each secret that the decoder would have found in the parameters was taken as it is.
private func checkTaken(_ secrets: borrowing CallSecrets, _ message: JSONValue) {
  guard case .object(let members) = message, case .object(let parameters) = members["parameters"] else { return }
  for member in ControlInterface.SecretMember.allCases {
    guard case .text(let text) = parameters[member.rawValue] else { continue }
    precondition(secrets.text(of: member) == Array(text.utf8), "\(member) was taken")
  }
}

extension CallSecrets {
  fileprivate borrowing func text(of member: ControlInterface.SecretMember) -> [UInt8]? {
    switch member {
    case .passcode: exposed(old.passcode)
    case .recoveryKey: exposed(old.recoveryKey)
    case .keyFile: exposed(old.keyFile)
    case .newPasscode: exposed(new.passcode)
    case .newTPMPasscode: exposed(new.tpmPasscode)
    case .newRecoveryKey: exposed(new.recoveryKey)
    case .newKeyFile: exposed(new.keyFile)
    case .pairingCode: exposed(pairingCode)
    }
  }

  private func exposed(_ secret: borrowing SecretBytes?) -> [UInt8]? {
    switch secret {
    case .some(let secret): unsafe secret.withBytes { unsafe Array($0) }
    case .none: nil
    }
  }
}
