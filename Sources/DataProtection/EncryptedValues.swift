import Foundation
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

extension URL {
  /// The encrypted fields of the file or directory.
  public var encryptedValues: EncryptedValues { EncryptedValues(url: self) }
}

/// Named, typed values of a file, encrypted under the file's own key: CloudKit's `encryptedValues`, for files.
///
/// They are extended attributes with the name `user.KEY`. Their names are available in every state, their values only
/// while the class of the file is usable. Fields of a directory are encrypted under the volume's key, and so always
/// usable.
///
/// ```swift
/// try url.encryptedValues.set("Dr. Weber", forKey: "author")
/// let author: String? = try url.encryptedValues["author"]
/// ```
public struct EncryptedValues: Sendable {
  /// The file or directory. A symbolic link is followed.
  public let url: URL

  /// The value of a field; `nil` if it does not exist.
  ///
  /// - Throws: `CocoaError.fileReadNoPermission` (257) while the class is locked, `CocoaError.fileReadCorruptFile` if
  ///   the field has another type.
  public subscript<Value: EncryptedValue>(key: String) -> Value? {
    get throws { try value(forKey: key) }
  }

  /// The value of a field; `nil` if it does not exist.
  ///
  /// - Throws: as the subscript.
  public func value<Value: EncryptedValue>(forKey key: String, as type: Value.Type = Value.self) throws -> Value? {
    let path = try Self.protectedPath(of: url)
    let bytes: [UInt8]
    do throws(Errno) {
      bytes = try PathName(path).attribute(Self.name(of: key))
    } catch {
      if error == .noData { return nil }
      throw CocoaError(error, .reading, path: path)
    }
    guard let value = Value(propertyList: Self.decoded(bytes)) else {
      throw CocoaError(
        .fileReadCorruptFile,
        userInfo: [NSFilePathErrorKey: path, NSDebugDescriptionErrorKey: "the field \(key) is no \(Value.self)"])
    }
    return value
  }

  /// Sets a field.
  ///
  /// - Throws: `CocoaError.fileWriteNoPermission` (513) while the class is locked, `CocoaError.fileWriteOutOfSpace` if
  ///   the fields of the file need more room than the backing file system has for them: 4 KiB in all, on ext4.
  public func set<Value: EncryptedValue>(_ value: Value, forKey key: String) throws {
    let path = try Self.protectedPath(of: url, .writing)
    let list = try PropertyListSerialization.data(fromPropertyList: value.propertyList, format: .binary, options: 0)
    try translating(.writing, path) { () throws(Errno) in
      try PathName(path).setAttribute(Self.name(of: key), to: Array(list))
    }
  }

  /// Removes a field. A field that does not exist is ignored. Needs no key.
  public func removeValue(forKey key: String) throws {
    let path = try Self.protectedPath(of: url, .writing)
    do throws(Errno) {
      try PathName(path).removeAttribute(Self.name(of: key))
    } catch {
      if error != .noData { throw CocoaError(error, .writing, path: path) }
    }
  }

  /// The names of all fields, sorted. Available while locked too.
  public func allKeys() throws -> [String] {
    let path = try Self.protectedPath(of: url)
    let names = try translating(.reading, path) { () throws(Errno) in try PathName(path).attributeNames() }
    return names.filter(Self.isField).map {
      String(decoding: $0.bytes.dropFirst(Self.prefix.utf8.count), as: UTF8.self)
    }.sorted()
  }

  // MARK: Names and bytes

  private static let prefix = "user."
  /// The prefix of attributes that the mount itself provides.
  private static let ownPrefix = "user.protectfs."

  /// Whether an attribute with that name is a field: any but those of the kernel and of the mount.
  static func isField(_ name: PathName) -> Bool {
    name.bytes.starts(with: prefix.utf8) && !name.bytes.starts(with: ownPrefix.utf8)
  }

  /// - Throws: `EINVAL` for a key that cannot be part of a name, or belongs to the mount.
  private static func name(of key: String) throws(Errno) -> PathName {
    let name = PathName(prefix + key)
    guard !key.isEmpty, !key.utf8.contains(0), isField(name) else { throw .invalidArgument }
    return name
  }

  /// A value that another program has set is text if it is UTF-8, otherwise data.
  private static func decoded(_ bytes: [UInt8]) -> Any {
    if bytes.starts(with: "bplist00".utf8),
      let list = try? unsafe PropertyListSerialization.propertyList(from: Data(bytes), format: nil)
    {
      return list
    }
    return String(validating: bytes, as: UTF8.self) ?? Data(bytes)
  }

  /// The path, if it is on a mount. Elsewhere the fields would not be encrypted.
  private static func protectedPath(of url: URL, _ access: CocoaError.Access = .reading) throws -> String {
    let path = try FileManager.path(of: url)
    return try translating(access, path) { () throws(Errno) in
      guard try MountedFileSystem.find(containing: path) != nil else { throw .notSupported }
      return path
    }
  }
}
