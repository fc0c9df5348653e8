import ProtectfsPolicy

// The messages of the control interface, for both sides. Documentation/PROTOCOL.md describes them.

/// The interface of a daemon.
package enum ControlInterface {
  /// The interface's name in Varlink.
  package static let name = "org.protectfs.Daemon"
  /// The maximum length of a call or reply, in bytes, without the terminating NUL.
  package static let longestMessage = 65_536

  /// The interface's methods.
  package enum Method: String, CaseIterable, Sendable {
    case status = "GetStatus"
    case lock = "Lock"
    case lockAll = "LockAll"
    case finishWrites = "FinishWrites"
    case unlock = "Unlock"
    case changePasscode = "ChangePasscode"
    case addKey = "AddKey"
    case removeKey = "RemoveKey"
    case addHost = "AddHost"
    case setHost = "SetHost"
    case lockHosts = "LockHosts"
    case rotate = "RotateClassKey"
    case eraseClass = "EraseClassKeys"
    case erase = "EraseStore"
    case events = "MonitorEvents"
    case delayLock = "DelayLock"

    /// The name in a call.
    package var qualifiedName: String { "\(ControlInterface.name).\(rawValue)" }
  }

  /// The members whose values are secrets. They are sent in the parameters of a call.
  package enum SecretMember: String, CaseIterable, Sendable {
    case passcode, recoveryKey, keyFile, newPasscode, newTPMPasscode, newRecoveryKey, newKeyFile, pairingCode
  }
}

/// A call without its secrets.
package struct Call<Parameters> {
  package var method: String
  package var parameters: Parameters?
  package var more: Bool?
  package var oneway: Bool?
}

extension Call: Encodable where Parameters: Encodable {}
extension Call: Decodable where Parameters: Decodable {}

/// A reply, or an error.
package struct VarlinkReply<Parameters> {
  package var parameters: Parameters?
  package var continues: Bool?
  package var error: String?

  package init(_ parameters: Parameters, continues: Bool? = nil, error: String? = nil) {
    self.parameters = parameters
    self.continues = continues
    self.error = error
  }
}

extension VarlinkReply: Encodable where Parameters: Encodable {}
extension VarlinkReply: Decodable where Parameters: Decodable {}

/// No parameters.
package struct NoParameters: Codable, Sendable {
  package init() {}
}

/// The parameters of `Lock`.
package struct LockParameters: Codable, Sendable {
  /// Seconds. If absent, the mount's own grace period is used.
  package var gracePeriod: Double?
  /// Whether class CX goes with the lock. If absent, it goes after its own period.
  package var inactive: Bool?
  /// Whether the reply waits until the lock has taken effect. If absent, it does.
  package var wait: Bool?

  package init(gracePeriod: Double?, inactive: Bool? = nil, wait: Bool?) {
    self.gracePeriod = gracePeriod
    self.inactive = inactive
    self.wait = wait
  }
}

/// The parameters of `LockHosts`.
package struct HostLockParameters: Codable, Sendable {
  /// Whether class CX goes too.
  package var inactive: Bool?
  /// Whether every class but `none` goes.
  package var everyClass: Bool?
  /// How many seconds the other hosts are waited for. If absent, 30.
  package var timeout: Double?

  package init(inactive: Bool?, everyClass: Bool?, timeout: Double?) {
    self.inactive = inactive
    self.everyClass = everyClass
    self.timeout = timeout
  }
}

/// The parameters of the reply to `LockHosts`.
package struct HostLockReply: Codable, Sendable {
  /// The names of those who have not said that they locked.
  package var silent: [String]

  package init(silent: [String]) {
    self.silent = silent
  }
}

/// The parameter of calls on one class.
package struct ClassParameters: Codable, Sendable {
  package var protectionClass: ProtectionClass

  enum CodingKeys: String, CodingKey {
    case protectionClass = "class"
  }
}

/// The parameters of the reply to `GetStatus`.
package struct StatusReply: Codable, Sendable {
  package var status: DaemonStatus

  package init(status: DaemonStatus) {
    self.status = status
  }
}

/// The parameters of each reply to `MonitorEvents`.
package struct EventReply: Codable, Sendable {
  /// `nil` for a kind of event that a later version has added.
  package var event: DaemonEvent?

  package init(event: DaemonEvent) {
    self.event = event
  }

  package init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    event = try? container.decode(DaemonEvent.self, forKey: .event)
  }
}

/// The parameters of each reply to `DelayLock`.
package struct DelayReply: Codable, Sendable {
  /// How long the announced lock waits at most, in seconds; absent before a lock is announced.
  package var seconds: Double?

  package init(seconds: Double?) {
    self.seconds = seconds
  }
}

/// The parameters of an error of the interface.
package struct ErrorParameters: Codable, Sendable {
  package var message: String?
}
