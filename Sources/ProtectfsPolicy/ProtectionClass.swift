/// The protection classes of Apple's Data Protection, which determine when the contents of a file are accessible.
///
/// The raw value is the number in a file's record on disk, and the class number of iOS (`PROTECTION_CLASS_A` …
/// `PROTECTION_CLASS_CX` in XNU's `content_protection.h`). Source: Apple Platform Security, "Data Protection classes".
public enum ProtectionClass: UInt8, CaseIterable, Sendable, Codable {
  /// Class A: usable only while unlocked.
  case complete = 1
  /// Class B: opened only while unlocked. Open handles keep working, and new files can be written while locked.
  case completeUnlessOpen = 2
  /// Class C, the default: usable from the first unlock until the file system is unmounted.
  case completeUntilFirstUserAuthentication = 3
  /// Class D: always usable; encrypted under the device key only.
  case none = 4
  /// Class CX: usable while unlocked, and for a period after a lock.
  case completeWhenUserInactive = 7

  /// The class of new files in a store if `init` gets no other.
  public static let standard = ProtectionClass.completeUntilFirstUserAuthentication

  /// The name used in the extended attribute, on the command line and in JSON.
  public var name: String {
    switch self {
    case .complete: "complete"
    case .completeUnlessOpen: "completeUnlessOpen"
    case .completeUntilFirstUserAuthentication: "completeUntilFirstUserAuthentication"
    case .none: "none"
    case .completeWhenUserInactive: "completeWhenUserInactive"
    }
  }

  /// The letter that Apple's documents use for the class.
  public var letter: String {
    switch self {
    case .complete: "A"
    case .completeUnlessOpen: "B"
    case .completeUntilFirstUserAuthentication: "C"
    case .none: "D"
    case .completeWhenUserInactive: "CX"
    }
  }

  /// The raw value of the Foundation constant, `FileProtectionType.rawValue`.
  public var foundationName: String {
    switch self {
    case .complete: "NSFileProtectionComplete"
    case .completeUnlessOpen: "NSFileProtectionCompleteUnlessOpen"
    case .completeUntilFirstUserAuthentication: "NSFileProtectionCompleteUntilFirstUserAuthentication"
    case .none: "NSFileProtectionNone"
    case .completeWhenUserInactive: "NSFileProtectionCompleteWhenUserInactive"
    }
  }

  /// The class with that name, letter or Foundation constant; `nil` for anything else.
  public init?(name: some StringProtocol) {
    let match = Self.allCases.first { $0.name == name || $0.letter == name || $0.foundationName == name }
    guard let match else { return nil }
    self = match
  }

  /// Encodes the class as its name.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(name)
  }

  /// Decodes a class from any of the names that ``init(name:)`` takes.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    let name = try container.decode(String.self)
    guard let value = Self(name: name) else {
      throw DecodingError.dataCorruptedError(in: container, debugDescription: "'\(name)' is no protection class")
    }
    self = value
  }
}

extension ProtectionClass {
  /// The extended attribute that reads and sets a file's class.
  public static let attributeName = "user.protectfs.class"
  /// The extended attribute that sets a file's class without changing the file key.
  package static let rewrapAttributeName = "user.protectfs.class.rewrap"
  /// The extended attribute that a file has while a rekey is pending. Setting it generates a new key.
  package static let rekeyAttributeName = "user.protectfs.rekey"
}
