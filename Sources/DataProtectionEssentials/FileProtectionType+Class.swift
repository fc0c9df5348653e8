import FoundationEssentials
import ProtectfsClient
import ProtectfsPolicy

// On iOS the type is Hashable. A conformance that is declared here would collide with that of Foundation, once it has
// one, and with a program's own: so there are only the operators that comparisons need.
extension FileProtectionType {
  /// Whether two classes are the same.
  public static func == (first: Self, second: Self) -> Bool { first.rawValue == second.rawValue }

  /// Whether two classes differ.
  public static func != (first: Self, second: Self) -> Bool { first.rawValue != second.rawValue }

  /// Whether a case of a `switch` stands for a class.
  public static func ~= (pattern: Self, value: Self) -> Bool { pattern.rawValue == value.rawValue }

  /// The same for a class that may not be there.
  public static func ~= (pattern: Self, value: Self?) -> Bool { pattern.rawValue == value?.rawValue }
}

/// Whether two classes are the same, or there are none: `attributes[.protectionKey] as? FileProtectionType ==
/// .complete`.
public func == (first: FileProtectionType?, second: FileProtectionType?) -> Bool { first?.rawValue == second?.rawValue }

/// Whether two classes differ, or there is one of them alone.
public func != (first: FileProtectionType?, second: FileProtectionType?) -> Bool { first?.rawValue != second?.rawValue }

extension FileProtectionType {
  /// ``ProtectionClass/completeWhenUserInactive``, as Darwin names it. Foundation on Linux names it `inactive`.
  public static let completeWhenUserInactive = FileProtectionType.inactive

  /// Foundation's constant for a class.
  public init(_ protectionClass: ProtectionClass) {
    self.init(rawValue: protectionClass.foundationName)
  }

  /// The class of this constant.
  ///
  /// - Throws: `CocoaError.featureUnsupported` for a raw value that is not one of Foundation's constants.
  package var protectionClass: ProtectionClass {
    get throws {
      if let match = ProtectionClass(self) { return match }
      throw CocoaError(
        .featureUnsupported, userInfo: [NSDebugDescriptionErrorKey: "\(rawValue) is no protection class"])
    }
  }
}

extension ProtectionClass {
  /// The class of Foundation's constant; `nil` for a raw value that is not one of its constants.
  public init?(_ type: FileProtectionType) {
    guard let match = Self.allCases.first(where: { $0.foundationName == type.rawValue }) else { return nil }
    self = match
  }
}

extension Data.WritingOptions {
  /// Puts the file into class ``ProtectionClass/completeWhenUserInactive``. Foundation on Linux lacks this option.
  public static let completeFileProtectionWhenUserInactive = Data.WritingOptions(rawValue: 0x5000_0000)

  /// `atomic`, by its former name, which much code has. Foundation on Linux lacks it.
  public static let atomicWrite = Data.WritingOptions.atomic

  /// The class that the options specify; `nil` if they specify none, so that the directory's class applies.
  ///
  /// - Throws: `CocoaError.featureUnsupported` for a value of the mask that stands for no class.
  package var protectionClass: ProtectionClass? {
    get throws {
      switch intersection(.fileProtectionMask) {
      case []: nil
      case .noFileProtection: ProtectionClass.none
      case .completeFileProtection: .complete
      case .completeFileProtectionUnlessOpen: .completeUnlessOpen
      case .completeFileProtectionUntilFirstUserAuthentication: .completeUntilFirstUserAuthentication
      case .completeFileProtectionWhenUserInactive: .completeWhenUserInactive
      case let other:
        throw CocoaError(
          .featureUnsupported,
          userInfo: [NSDebugDescriptionErrorKey: "no protection class has the number \(other.rawValue >> 28)"])
      }
    }
  }
}
