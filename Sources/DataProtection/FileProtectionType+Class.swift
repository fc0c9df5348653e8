import Foundation
import ProtectfsClient
import ProtectfsPolicy

// `attributes[.protectionKey] as? FileProtectionType == .complete` needs it, and Foundation on Linux leaves it out.
extension FileProtectionType: @retroactive Hashable {}

extension FileProtectionType {
  /// ``ProtectionClass/completeWhenUserInactive``, as Darwin spells it; Foundation on Linux says `inactive`.
  public static let completeWhenUserInactive = FileProtectionType.inactive

  /// Foundation's constant for a class.
  public init(_ protectionClass: ProtectionClass) {
    self.init(rawValue: protectionClass.foundationName)
  }

  /// The class that it stands for.
  ///
  /// - Throws: `CocoaError.featureUnsupported` for a raw value that is none of Foundation's constants.
  var protectionClass: ProtectionClass {
    get throws {
      if let match = ProtectionClass(self) { return match }
      throw CocoaError(
        .featureUnsupported, userInfo: [NSDebugDescriptionErrorKey: "\(rawValue) is no protection class"])
    }
  }
}

extension ProtectionClass {
  /// The class that Foundation's constant stands for; `nil` for a raw value that is none of its constants.
  public init?(_ type: FileProtectionType) {
    guard let match = Self.allCases.first(where: { $0.foundationName == type.rawValue }) else { return nil }
    self = match
  }
}

extension Data.WritingOptions {
  /// Puts the file into class ``ProtectionClass/completeWhenUserInactive``; Foundation on Linux leaves it out.
  public static let completeFileProtectionWhenUserInactive = Data.WritingOptions(rawValue: 0x5000_0000)

  /// The class that the options ask for; `nil` where they ask for none and the directory's counts.
  ///
  /// - Throws: `CocoaError.fileWriteUnknown` for a value of the mask that stands for no class.
  var protectionClass: ProtectionClass? {
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
