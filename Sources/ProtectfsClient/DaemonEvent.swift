import ProtectfsPolicy

/// An event that a daemon sends to its listeners: `MonitorEvents` of the control interface.
///
/// The names follow UIKit's `protectedDataWillBecomeUnavailable` and `protectedDataDidBecomeAvailable`. Later versions
/// may add others.
@nonexhaustive
public enum DaemonEvent: Sendable, Hashable {
  /// The first event of every listener, with the state at that moment. No event after it is missed.
  case monitoringBegan(LockState)
  /// A lock was requested: the classes become unavailable in this many seconds, unless an unlock comes first.
  case willBecomeUnavailable(classes: [ProtectionClass], seconds: Double)
  /// The keys of the classes have been wiped.
  case didBecomeUnavailable(classes: [ProtectionClass])
  /// The keys of the classes are in memory, after an unlock or after an unlock that cancelled a lock.
  case didBecomeAvailable(classes: [ProtectionClass])
  /// An access was refused because of a file's class.
  case accessDenied(AccessDenial)
  /// The listener was too slow, so this many events were dropped here.
  case eventsDropped(Int)
}

/// An access that was refused because the key of the file's class is not in memory.
public struct AccessDenial: Sendable, Hashable {
  /// The error that Foundation reports to the refused program: the number of its `CocoaError`.
  public enum Code: Int, Sendable, CaseIterable {
    /// `CocoaError.fileReadNoPermission`
    case fileReadNoPermission = 257
    /// `CocoaError.fileWriteNoPermission`
    case fileWriteNoPermission = 513
  }

  /// Whether reading or writing was refused.
  public var code: Code
  /// The class of the file, or of the directory in which it was to be created.
  public var protectionClass: ProtectionClass
  /// The path below the mount point, or a description if the file no longer has a name.
  public var path: String
  /// The process that was refused; 0 if the kernel acted on its own.
  public var processID: Int32

  /// Creates a refusal.
  public init(code: Code, protectionClass: ProtectionClass, path: String, processID: Int32) {
    self.code = code
    self.protectionClass = protectionClass
    self.path = path
    self.processID = processID
  }
}

// Each event is one flat object, since Varlink has no types with cases.
extension DaemonEvent: Codable {
  /// The name of an event on the wire.
  enum Kind: String, Codable, CaseIterable {
    case monitoringBegan, willBecomeUnavailable, didBecomeUnavailable, didBecomeAvailable, accessDenied, eventsDropped
  }

  private enum CodingKeys: String, CodingKey {
    case event, state, classes, seconds, code, path, count
    case protectionClass = "class"
    case processID = "pid"
  }

  /// Encodes the event as an object whose member `event` names it.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    switch self {
    case .monitoringBegan(let state):
      try container.encode(Kind.monitoringBegan, forKey: .event)
      try container.encode(state, forKey: .state)
    case .willBecomeUnavailable(let classes, let seconds):
      try container.encode(Kind.willBecomeUnavailable, forKey: .event)
      try container.encode(classes, forKey: .classes)
      try container.encode(seconds, forKey: .seconds)
    case .didBecomeUnavailable(let classes):
      try container.encode(Kind.didBecomeUnavailable, forKey: .event)
      try container.encode(classes, forKey: .classes)
    case .didBecomeAvailable(let classes):
      try container.encode(Kind.didBecomeAvailable, forKey: .event)
      try container.encode(classes, forKey: .classes)
    case .accessDenied(let denial):
      try container.encode(Kind.accessDenied, forKey: .event)
      try container.encode(denial.code.rawValue, forKey: .code)
      try container.encode(denial.protectionClass, forKey: .protectionClass)
      try container.encode(denial.path, forKey: .path)
      try container.encode(denial.processID, forKey: .processID)
    case .eventsDropped(let count):
      try container.encode(Kind.eventsDropped, forKey: .event)
      try container.encode(count, forKey: .count)
    }
  }

  /// Decodes an event from such an object.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    switch try container.decode(Kind.self, forKey: .event) {
    case .monitoringBegan:
      self = .monitoringBegan(try container.decode(LockState.self, forKey: .state))
    case .willBecomeUnavailable:
      self = .willBecomeUnavailable(
        classes: try container.decode([ProtectionClass].self, forKey: .classes),
        seconds: try container.decode(Double.self, forKey: .seconds))
    case .didBecomeUnavailable:
      self = .didBecomeUnavailable(classes: try container.decode([ProtectionClass].self, forKey: .classes))
    case .didBecomeAvailable:
      self = .didBecomeAvailable(classes: try container.decode([ProtectionClass].self, forKey: .classes))
    case .accessDenied:
      let number = try container.decode(Int.self, forKey: .code)
      guard let code = AccessDenial.Code(rawValue: number) else {
        throw DecodingError.dataCorruptedError(forKey: .code, in: container, debugDescription: "unknown code \(number)")
      }
      self = .accessDenied(
        AccessDenial(
          code: code,
          protectionClass: try container.decode(ProtectionClass.self, forKey: .protectionClass),
          path: try container.decode(String.self, forKey: .path),
          processID: try container.decode(Int32.self, forKey: .processID)))
    case .eventsDropped:
      self = .eventsDropped(try container.decode(Int.self, forKey: .count))
    }
  }
}
