import Foundation
import ProtectfsClient
import ProtectfsPolicy
import SystemPackage

// Foundation's calls with `.protectionKey`, which it drops on Linux. Swift prefers a property to a method of the same
// name, so what is written for iOS finds these. They do what Foundation leaves out, and Foundation does the rest.
extension FileManager {
  /// `setAttributes(_:ofItemAtPath:)`, with `.protectionKey` for what it says.
  public var setAttributes: AttributeSetting { AttributeSetting(fileManager: self) }
  /// `attributesOfItem(atPath:)`, which also tells `.protectionKey` on a protectfs mount.
  public var attributesOfItem: AttributeReading { AttributeReading(fileManager: self) }

  /// The call `setAttributes(_:ofItemAtPath:)`.
  public struct AttributeSetting {
    fileprivate let fileManager: FileManager

    /// Sets attributes of a file or directory: its class first, then the others.
    ///
    /// - Throws: as ``FileManager/setProtection(_:ofItemAt:)``, and as Foundation's.
    public func callAsFunction(_ attributes: [FileAttributeKey: Any], ofItemAtPath path: String) throws {
      let protection = try attributes.protection
      if let protection {
        try fileManager.setProtection(protection, ofItemAt: URL(fileURLWithPath: path))
      }
      let others = attributes.withoutProtection
      if protection != nil && others.isEmpty { return }
      let foundation: ([FileAttributeKey: Any], String) throws -> Void = fileManager.setAttributes
      try foundation(others, path)
    }
  }

  /// The call `attributesOfItem(atPath:)`.
  public struct AttributeReading {
    fileprivate let fileManager: FileManager

    /// The attributes of a file or directory; a symbolic link is not followed, and has no class.
    public func callAsFunction(atPath path: String) throws -> [FileAttributeKey: Any] {
      let foundation: (String) throws -> [FileAttributeKey: Any] = fileManager.attributesOfItem
      var attributes = try foundation(path)
      let type = attributes[.type] as? FileAttributeType
      if type == .typeRegular || type == .typeDirectory, let protectionClass = try? ProtectionClass(ofItemAt: path) {
        attributes[.protectionKey] = FileProtectionType(protectionClass)
      }
      return attributes
    }
  }
}

extension [FileAttributeKey: Any] {
  /// The class among the attributes, as a `FileProtectionType` or its raw value.
  ///
  /// - Throws: `CocoaError.featureUnsupported` for another value.
  var protection: FileProtectionType? {
    get throws {
      guard let value = self[.protectionKey] else { return nil }
      guard let name = (value as? FileProtectionType)?.rawValue ?? value as? String else {
        throw CocoaError(.featureUnsupported, userInfo: [NSDebugDescriptionErrorKey: "\(value) is no protection class"])
      }
      let type = FileProtectionType(rawValue: name)
      _ = try type.protectionClass
      return type
    }
  }

  var withoutProtection: Self { filter { $0.key != .protectionKey } }
}
