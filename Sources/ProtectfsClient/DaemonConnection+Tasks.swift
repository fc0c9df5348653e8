import ProtectfsIO

// Calls that a task waits for.
extension DaemonConnection {
  /// A secret that opens a store; see ``Secret``.
  package enum SecretKind: Sendable {
    case passcode, recoveryKey, keyFile
  }

  /// Returns the state of the mount that contains a file or directory.
  package static func status(at path: String) async throws(ControlError) -> DaemonStatus {
    try await DaemonCall.run(at: path) { (daemon) throws(ControlError) in try daemon.status() }
  }

  /// Locks the mount that contains a file or directory.
  package static func lock(
    at path: String, gracePeriod: Duration?, waiting: Bool
  ) async throws(ControlError) {
    try await DaemonCall.run(at: path) { (daemon) throws(ControlError) in
      try daemon.lock(gracePeriod: gracePeriod, waiting: waiting)
    }
  }

  /// Unlocks the mount that contains a file or directory. The secret is copied once, to memory that is wiped when the
  /// call has ended.
  package static func unlock(
    at path: String, _ kind: SecretKind, _ secret: Span<UInt8>
  ) async throws(ControlError) {
    let message = try SharedMessage(kind, secret)
    try await DaemonCall.run(at: path) { (daemon) throws(ControlError) in try daemon.call(message.bytes) }
  }

  /// A call that a thread sends for a task.
  private final class SharedMessage: Sendable {
    let bytes: SecretMessage

    init(_ kind: SecretKind, _ secret: Span<UInt8>) throws(ControlError) {
      bytes = try unsafe secret.withUnsafeBytes { (bytes) throws(ControlError) in
        let secret: Secret =
          switch kind {
          case .passcode: unsafe .passcode(bytes)
          case .recoveryKey: unsafe .recoveryKey(bytes)
          case .keyFile: unsafe .keyFile(bytes)
          }
        return try unsafe SecretMessage(.unlock, [secret.member])
      }
    }
  }
}
