import Foundation

// Foundation's calls for resource values, with this module's keys. FileManager+Attributes.swift explains why these are
// properties.
extension NSURL {
  /// `getResourceValue(_:forKey:)`, also for this module's keys.
  public var getResourceValue: ResourceReading { ResourceReading(url: self) }
  /// `resourceValues(forKeys:)`, also for this module's keys.
  public var resourceValues: ResourceReading { ResourceReading(url: self) }
  /// `setResourceValue(_:forKey:)`, which also sets the class.
  public var setResourceValue: ResourceSetting { ResourceSetting(url: self) }
  /// `setResourceValues(_:)`, which also sets the class.
  public var setResourceValues: ResourceSetting { ResourceSetting(url: self) }

  /// The calls `getResourceValue(_:forKey:)` and `resourceValues(forKeys:)`.
  public struct ResourceReading {
    fileprivate let url: NSURL

    /// Gets a value; `nil` if the item has none.
    ///
    /// - Throws: Foundation's error if the file does not exist.
    public func callAsFunction(_ value: inout AnyObject?, forKey key: URLResourceKey) throws {
      guard URLResourceKey.protectionKeys.contains(key) else {
        let foundation: (inout AnyObject?, URLResourceKey) throws -> Void = url.getResourceValue
        return try foundation(&value, key)
      }
      value = try self(forKeys: [key])[key] as AnyObject?
    }

    /// The values of a file or directory, or of the symbolic link itself.
    ///
    /// - Throws: Foundation's error if the file does not exist.
    public func callAsFunction(forKeys keys: [URLResourceKey]) throws -> [URLResourceKey: Any] {
      let foundation: ([URLResourceKey]) throws -> [URLResourceKey: Any] = url.resourceValues
      let ours = URLResourceKey.protectionKeys.intersection(keys)
      let values = try foundation(keys.filter { !ours.contains($0) })
      if ours.isEmpty { return values }
      return try values.merging(ProtectionResourceValues.of(url as URL, ours)) { $1 }
    }
  }

  /// The calls `setResourceValue(_:forKey:)` and `setResourceValues(_:)`.
  public struct ResourceSetting {
    fileprivate let url: NSURL

    /// Sets a value of a file or directory.
    ///
    /// - Throws: as ``FoundationEssentials/FileManager/setProtection(_:ofItemAt:)``, and Foundation's errors.
    public func callAsFunction(_ value: Any?, forKey key: URLResourceKey) throws {
      if key == .fileProtectionKey { return try ProtectionResourceValues.setProtection(value, of: url as URL) }
      let foundation: (Any?, URLResourceKey) throws -> Void = url.setResourceValue
      try foundation(value, key)
    }

    /// Sets the values of a file or directory: first its class, then the others.
    ///
    /// - Throws: as ``FoundationEssentials/FileManager/setProtection(_:ofItemAt:)``, and Foundation's errors.
    public func callAsFunction(_ keyedValues: [URLResourceKey: Any]) throws {
      if let value = keyedValues[.fileProtectionKey] { try self(value, forKey: .fileProtectionKey) }
      let foundation: ([URLResourceKey: Any]) throws -> Void = url.setResourceValues
      try foundation(keyedValues.filter { $0.key != .fileProtectionKey })
    }
  }
}
