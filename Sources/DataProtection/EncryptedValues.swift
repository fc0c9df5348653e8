import Foundation
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

extension URL {
  /// The encrypted fields of the file or directory.
  public var encryptedValues: EncryptedValues { EncryptedValues(url: self) }
}

/// Named, typed values that a file carries, encrypted under its own key: CloudKit's `encryptedValues`, for files.
///
/// They are extended attributes of the name `user.KEY`. Their names are told in every state; values only while the class of
/// the file is usable. Fields of a directory are encrypted under the volume's key, and so always usable.
///
/// ```swift
/// try url.encryptedValues.set("Dr. Weber", forKey: "author")
/// let author: String? = try url.encryptedValues["author"]
/// ```
public struct EncryptedValues: Sendable {
  /// The file or directory. A symbolic link is followed.
  public let url: URL

  /// The value of a field; `nil` where there is none.
  ///
  /// - Throws: `CocoaError.fileReadNoPermission` (257) while the class is locked, `CocoaError.fileReadCorruptFile` where the
  ///   field is of another type.
  public subscript<Value: EncryptedValue>(key: String) -> Value? {
    get throws { try value(forKey: key) }
  }

  /// The value of a field; `nil` where there is none.
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
  /// - Throws: `CocoaError.fileWriteNoPermission` (513) while the class is locked, `CocoaError.fileWriteOutOfSpace` where
  ///   the fields of the file outgrow what the backing file system gives them: 4 KiB in all, on ext4.
  public func set<Value: EncryptedValue>(_ value: Value, forKey key: String) throws {
    let path = try Self.protectedPath(of: url, .writing)
    let list = try PropertyListSerialization.data(fromPropertyList: value.propertyList, format: .binary, options: 0)
    try translating(.writing, path) { () throws(Errno) in
      try PathName(path).setAttribute(Self.name(of: key), to: Array(list))
    }
  }

  /// Removes a field; one that is not there is passed over. Needs no key.
  public func removeValue(forKey key: String) throws {
    let path = try Self.protectedPath(of: url, .writing)
    do throws(Errno) {
      try PathName(path).removeAttribute(Self.name(of: key))
    } catch {
      if error != .noData { throw CocoaError(error, .writing, path: path) }
    }
  }

  /// The names of all fields, in order. Told while locked too.
  public func allKeys() throws -> [String] {
    let path = try Self.protectedPath(of: url)
    let names = try translating(.reading, path) { () throws(Errno) in try PathName(path).attributeNames() }
    return names.filter(Self.isField).map {
      String(decoding: $0.bytes.dropFirst(Self.prefix.utf8.count), as: UTF8.self)
    }.sorted()
  }

  // MARK: Names and bytes

  private static let prefix = "user."
  /// What the mount answers itself.
  private static let ownPrefix = "user.protectfs."

  /// Whether an attribute of that name is a field: all but the kernel's and the mount's own.
  static func isField(_ name: PathName) -> Bool {
    name.bytes.starts(with: prefix.utf8) && !name.bytes.starts(with: ownPrefix.utf8)
  }

  /// - Throws: `EINVAL` for a key that cannot be part of a name, or is the mount's own.
  private static func name(of key: String) throws(Errno) -> PathName {
    let name = PathName(prefix + key)
    guard !key.isEmpty, !key.utf8.contains(0), isField(name) else { throw .invalidArgument }
    return name
  }

  /// What other programs have set is text, or else data.
  private static func decoded(_ bytes: [UInt8]) -> Any {
    if bytes.starts(with: "bplist00".utf8),
      let list = try? unsafe PropertyListSerialization.propertyList(from: Data(bytes), format: nil)
    {
      return list
    }
    return String(validating: bytes, as: UTF8.self) ?? Data(bytes)
  }

  /// Elsewhere the fields would not be encrypted.
  private static func protectedPath(of url: URL, _ access: CocoaError.Access = .reading) throws -> String {
    let path = try FileManager.path(of: url)
    return try translating(access, path) { () throws(Errno) in
      guard try MountedFileSystem.find(containing: path) != nil else { throw .notSupported }
      return path
    }
  }
}
