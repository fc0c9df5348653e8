import DataProtectionEssentials
import Foundation

// `write(to:atomically:)` of arrays and dictionaries, with which Foundation replaces a file by one without encrypted
// fields. FileManager+Attributes.swift explains why these are properties.
extension NSArray {
  /// `write(to:atomically:)` and its like, with which a replaced file on a mount passes on its encrypted fields, its
  /// explicit class and its ACL.
  public var write: PropertyListWriting { PropertyListWriting(list: self) }
}

extension NSDictionary {
  /// `write(to:atomically:)` and its like, with which a replaced file on a mount passes on its encrypted fields, its
  /// explicit class and its ACL.
  public var write: PropertyListWriting { PropertyListWriting(list: self) }
}

/// The calls `write(to:)`, `write(to:atomically:)` and `write(toFile:atomically:)` of a property list.
public struct PropertyListWriting {
  fileprivate let list: NSObject

  /// Writes the property list to a file, atomically. Foundation on Linux lacks this call.
  ///
  /// - Throws: as ``FoundationEssentials/Data/FileWriting/callAsFunction(to:options:)``, and the error for objects that
  ///   no property list can contain.
  public func callAsFunction(to url: URL) throws { try data().write(to: url, options: .atomic) }

  /// Writes the property list to a file, and returns whether that succeeded.
  @discardableResult
  public func callAsFunction(to url: URL, atomically: Bool) -> Bool {
    do {
      // As Foundation does.
      try data().write(to: url, options: atomically ? .atomic : [])
      return true
    } catch {
      // The call cannot report an error in another way.
      return false
    }
  }

  /// Writes the property list to a file by its path, and returns whether that succeeded.
  @discardableResult
  public func callAsFunction(toFile path: String, atomically: Bool) -> Bool {
    self(to: URL(fileURLWithPath: path), atomically: atomically)
  }

  /// In Foundation's format.
  private func data() throws -> Data {
    try PropertyListSerialization.data(fromPropertyList: list, format: .xml, options: 0)
  }
}
