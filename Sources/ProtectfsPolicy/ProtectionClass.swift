/// When the contents of a file can be reached: the protection classes of Apple's Data Protection.
///
/// The raw value is the number in a file's record on disk, and the class number of iOS
/// (`PROTECTION_CLASS_A` … `PROTECTION_CLASS_CX` in XNU's `content_protection.h`).
/// Source: Apple Platform Security, "Data Protection classes".
public enum ProtectionClass: UInt8, CaseIterable, Sendable, Codable {
  /// Class A: usable while unlocked only.
  case complete = 1
  /// Class B: opened while unlocked only; open handles go on working, and new files can be written while locked.
  case completeUnlessOpen = 2
  /// Class C, the default: usable from the first unlock until the file system is unmounted.
  case completeUntilFirstUserAuthentication = 3
  /// Class D: always usable; encrypted under the device key only.
  case none = 4
  /// Class CX: usable while unlocked, and for a period after the lock.
  case completeWhenUserInactive = 7

  /// The class a store gives to new files when `init` is not told another.
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

  /// The letter by which Apple's documents call the class.
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

  /// The class of that name, letter or Foundation constant; `nil` for anything else.
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
  /// The extended attribute that sets a file's class and leaves it the key that it has.
  package static let rewrapAttributeName = "user.protectfs.class.rewrap"
  /// The extended attribute that a file has while a rekey of it is pending; setting it draws a new key.
  package static let rekeyAttributeName = "user.protectfs.rekey"
}
