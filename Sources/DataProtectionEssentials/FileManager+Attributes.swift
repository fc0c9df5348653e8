import FoundationEssentials
import ProtectfsClient
import ProtectfsPolicy
import SystemPackage

// Foundation's calls with `.protectionKey`, which Foundation ignores on Linux. Swift prefers a property to a method of
// the same name, so code written for iOS finds these properties. They do what Foundation leaves out, and call
// Foundation for the rest.
extension FileManager {
  /// `setAttributes(_:ofItemAtPath:)`, which also sets `.protectionKey`.
  public var setAttributes: AttributeSetting { AttributeSetting(fileManager: self) }
  /// `attributesOfItem(atPath:)`, which also returns `.protectionKey` on a protectfs mount.
  public var attributesOfItem: AttributeReading { AttributeReading(fileManager: self) }

  /// The call `setAttributes(_:ofItemAtPath:)`.
  public struct AttributeSetting {
    fileprivate let fileManager: FileManager

    /// Sets attributes of a file or directory: first its class, then the others. An override of a subclass is called
    /// with all of them.
    ///
    /// - Throws: as ``FileManager/setProtection(_:ofItemAt:)``, and Foundation's errors.
    public func callAsFunction(_ attributes: [FileAttributeKey: Any], ofItemAtPath path: String) throws {
      try FileManager.refuseNUL(in: path)
      guard let protection = try attributes.protection else { return try foundation(attributes, path) }
      // An override sees the class too, and the path may be one that only the override knows.
      let mayOverride = fileManager.mayOverride("setAttributes")
      let isElsewhere = mayOverride && (try? MountedFileSystem.containing(path)) == nil
      if !isElsewhere { try fileManager.setProtection(protection, ofItemAt: URL(fileURLWithPath: path)) }
      let others = attributes.withoutProtection
      if mayOverride || !others.isEmpty { try foundation(mayOverride ? attributes : others, path) }
      if isElsewhere, FileManager().fileExists(atPath: path) { throw CocoaError.notProtected(path) }
    }

    private func foundation(_ attributes: [FileAttributeKey: Any], _ path: String) throws {
      try fileManager.callFoundation("setAttributes") { fileManager in
        let foundation: ([FileAttributeKey: Any], String) throws -> Void = fileManager.setAttributes
        try foundation(attributes, path)
      }
    }
  }

  /// The call `attributesOfItem(atPath:)`.
  public struct AttributeReading {
    fileprivate let fileManager: FileManager

    /// The attributes of a file or directory. A symbolic link is not followed, and has no class.
    public func callAsFunction(atPath path: String) throws -> [FileAttributeKey: Any] {
      try FileManager.refuseNUL(in: path, .reading)
      var attributes = try fileManager.callFoundation("attributesOfItem") { fileManager in
        let foundation: (String) throws -> [FileAttributeKey: Any] = fileManager.attributesOfItem
        return try foundation(path)
      }
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
  package var protection: FileProtectionType? {
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

  package var withoutProtection: Self { filter { $0.key != .protectionKey } }
}
