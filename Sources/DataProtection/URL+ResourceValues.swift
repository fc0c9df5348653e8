import Foundation

// Foundation's calls for resource values, with this module's keys. FileManager+Attributes.swift explains why these are
// properties.
extension URL {
  /// `resourceValues(forKeys:)`, also for ``Foundation/URLResourceKey/fileProtectionKey`` and
  /// ``Foundation/URLResourceKey/volumeSupportsFileProtectionKey``.
  public var resourceValues: ResourceReading { ResourceReading(url: self) }
  /// `setResourceValues(_:)`, which also sets the class: first the class, then the others.
  ///
  /// It throws as ``FoundationEssentials/FileManager/setProtection(_:ofItemAt:)``, `CocoaError.featureUnsupported` for
  /// values with `quarantineProperties`, which have no meaning here and replace the class, and Foundation's errors.
  public var setResourceValues: (URLResourceValues) throws -> Void {
    // A function: Swift prefers Foundation's call, which is mutating, to a value that can be called like one.
    { values in
      guard values.hasOnlyProtection else {
        throw CocoaError(
          .featureUnsupported,
          userInfo: [
            NSURLErrorKey: self,
            NSLocalizedDescriptionKey:
              "quarantineProperties cannot be set: nothing here quarantines files, and they take the place of the class",
          ])
      }
      if let protection = values.fileProtection { try ProtectionResourceValues.setProtection(protection, of: self) }
      var others = values
      others.protectionValues = nil
      // Foundation's own does the same.
      try (self as NSURL).setResourceValues(others.allValues)
    }
  }

  /// The call `resourceValues(forKeys:)`.
  public struct ResourceReading {
    fileprivate let url: URL

    /// The values of a file or directory, or of the symbolic link itself.
    ///
    /// - Throws: Foundation's error if the file does not exist.
    public func callAsFunction(forKeys keys: Set<URLResourceKey>) throws -> URLResourceValues {
      let foundation: (Set<URLResourceKey>) throws -> URLResourceValues = url.resourceValues
      let ours = keys.intersection(URLResourceKey.protectionKeys)
      var values = try foundation(keys.subtracting(ours))
      if !ours.isEmpty { values.protectionValues = try ProtectionResourceValues.of(url, ours) }
      return values
    }
  }
}

extension URLResourceValues {
  /// The class; `nil` if the file is not on a protectfs mount, if this user may not read it, or if its key was not
  /// requested.
  ///
  /// Name the type to set it to ``URLFileProtection/none``: `.none` alone is that of `Optional`, and sets nothing.
  public var fileProtection: URLFileProtection? {
    get { protectionValues?[.fileProtectionKey] as? URLFileProtection }
    set { protectionValues = (protectionValues ?? [:]).merging([.fileProtectionKey: newValue as Any]) { $1 } }
  }

  /// Whether the file system has protection classes; `nil` if the key was not requested.
  public var volumeSupportsFileProtection: Bool? {
    protectionValues?[.volumeSupportsFileProtectionKey] as? Bool
  }

  /// Whether there are no others in the dictionary.
  fileprivate var hasOnlyProtection: Bool {
    protectionValues.map { URLResourceKey.protectionKeys.isSuperset(of: $0.keys) } ?? true
  }

  /// Carried in the one dictionary that Foundation lets others set. Nothing on Linux quarantines files.
  fileprivate var protectionValues: [URLResourceKey: Any]? {
    get {
      quarantineProperties.map { Dictionary(uniqueKeysWithValues: $0.map { (URLResourceKey(rawValue: $0), $1) }) }
    }
    set {
      quarantineProperties = newValue.map { Dictionary(uniqueKeysWithValues: $0.map { ($0.rawValue, $1) }) }
    }
  }
}
