import FoundationEssentials
import ProtectfsClient
import ProtectfsPolicy

// `attributes[.protectionKey] as? FileProtectionType == .complete` requires this conformance, which Foundation on Linux
// lacks.
extension FileProtectionType: @retroactive Hashable {}

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
