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
/// while the class of the file is usable.
///
/// Fields of a directory are encrypted under the volume's key, as names are. No passcode and no class is in that key:
/// they are usable in every state, and `protectfs erase` leaves them readable. What is secret belongs to a file.
///
/// ```swift
/// try url.encryptedValues.set("Dr. Weber", forKey: "author")
/// let author = try url.encryptedValues["author"] as? String
/// let pages: Int? = try url.encryptedValues["pages"]
/// ```
///
/// A value is of any `Codable` type, or a property list of Foundation's classes (`NSString`, `NSNumber`, `NSData`,
/// `NSDate`, `NSArray`, `NSDictionary`).
public struct EncryptedValues: Sendable {
  /// The file or directory. A symbolic link is followed.
  public let url: URL

  /// The value of a field, for `as?`; `nil` if it does not exist.
  ///
  /// It is a `String`, `Data`, `Date`, `NSNumber`, or an array or dictionary of these. A number can be cast to every
  /// type of numbers that holds it, and what was a `Bool` to `Bool` and to numbers. What was stored as another
  /// `Codable` type is read by ``value(forKey:as:)``.
  /// - Throws: `CocoaError.fileReadNoPermission` (257) while the class is locked.
  public subscript(key: String) -> Any? {
    get throws { try stored(forKey: key)?.propertyList }
  }

  /// The value of a field; `nil` if it does not exist.
  ///
  /// - Throws: as ``value(forKey:as:)``.
  public subscript<Value: Decodable>(key: String) -> Value? {
    get throws { try value(forKey: key) }
  }

  /// The value of a field; `nil` if it does not exist.
  ///
  /// - Throws: `CocoaError.fileReadNoPermission` (257) while the class is locked, `CocoaError.fileReadCorruptFile` if
  ///   the field has another type.
  public func value<Value: Decodable>(forKey key: String, as type: Value.Type = Value.self) throws -> Value? {
    guard let value = try stored(forKey: key) else { return nil }
    do {
      return try value.decoded(as: type)
    } catch {
      throw CocoaError(
        .fileReadCorruptFile,
        userInfo: [
          NSFilePathErrorKey: try Self.protectedPath(of: url), NSUnderlyingErrorKey: error,
          NSDebugDescriptionErrorKey: "the field \(key) is no \(Value.self)",
        ])
    }
  }

  /// Sets a field, or removes it if the value is `nil`.
  ///
  /// - Throws: `CocoaError.fileWriteNoPermission` (513) while the class is locked, `CocoaError.fileWriteOutOfSpace` if
  ///   the fields of the file need more room than the backing file system has for them: 4 KiB in all, on ext4.
  ///   `EncodingError` for a value that is neither `Codable` nor a property list, for an `NSDecimalNumber` that has
  ///   more digits than a `Double`, and for a text `$null` within a value, which would be read as `nil`.
  ///   `CocoaError.fileWriteInvalidFileName` (514) for a key that is empty, has more than 250 bytes or a NUL, or begins
  ///   with `protectfs.`.
  public func set<Value: Encodable>(_ value: Value?, forKey key: String) throws {
    try store(any: value, forKey: key)
  }

  /// Sets a field to a property list of Foundation's classes, or removes it if the value is `nil`.
  ///
  /// - Throws: as ``set(_:forKey:)-(Value?,_)``.
  public func set(_ value: NSObject?, forKey key: String) throws {
    try store(any: value, forKey: key)
  }

  /// Removes a field. A field that does not exist is ignored. Needs no key.
  public func removeValue(forKey key: String) throws {
    try store(nil as EncryptedValue?, forKey: key)
  }

  /// The names of all fields, sorted. Available while locked too.
  public func allKeys() throws -> [String] {
    let path = try Self.protectedPath(of: url)
    let names = try translating(.reading, path) { () throws(Errno) in try PathName(path).attributeNames() }
    return names.filter(FieldName.isOne).map(FieldName.key).sorted()
  }

  // MARK: Stored values

  /// The value of a field as it is stored; `nil` if it does not exist.
  func stored(forKey key: String) throws -> EncryptedValue? {
    let path = try Self.protectedPath(of: url)
    let name = try Self.name(of: key, .fileReadInvalidFileName, path)
    do throws(Errno) {
      return EncryptedValue(bytes: try PathName(path).attribute(name))
    } catch {
      if error == .noData { return nil }
      throw CocoaError(error, .reading, path: path)
    }
  }

  private func store(any value: Any?, forKey key: String) throws {
    try store(EncryptedValue.unwrapped(value).map { try EncryptedValue($0) }, forKey: key)
  }

  private func store(_ value: EncryptedValue?, forKey key: String) throws {
    let path = try Self.protectedPath(of: url, .writing)
    try Self.store(value, forKey: key, in: PathName(path), path)
  }

  /// Stores a value that has been encoded; `nil` removes the field.
  ///
  /// - Parameter path: the path in errors.
  static func store(
    _ value: EncryptedValue?, forKey key: String, in file: PathName, _ path: String,
    asking protectionClass: ProtectionClass? = nil
  ) throws {
    let name = try name(of: key, .fileWriteInvalidFileName, path)
    do throws(Errno) {
      if let value { try file.setAttribute(name, to: value.bytes) } else { try file.removeAttribute(name) }
    } catch {
      if value == nil, error == .noData { return }
      throw value.flatMap { tooLarge($0, key, error, path) }
        ?? CocoaError(error, .writing, path: path, asking: protectionClass)
    }
  }

  /// The error for fields that do not fit; `nil` if `error` has another cause.
  private static func tooLarge(_ value: EncryptedValue, _ key: String, _ error: Errno, _ path: String) -> CocoaError? {
    // By setxattr(2): larger than any attribute may be, than the file system has room for at a file, or than the disk.
    guard [.argListTooLong, .outOfRange, .noSpace, .diskQuotaExceeded].contains(error) else { return nil }
    return CocoaError(
      .fileWriteOutOfSpace,
      userInfo: [
        NSFilePathErrorKey: path, NSURLErrorKey: URL(fileURLWithPath: path),
        NSUnderlyingErrorKey: NSError(domain: NSPOSIXErrorDomain, code: Int(error.rawValue)),
        NSLocalizedDescriptionKey: """
        the field \(key) of \(path) has \(value.bytes.count) bytes, for which there is no room: all fields of a file \
        share what the backing file system has for its extended attributes, 4 KiB on ext4
        """,
      ])
  }

  // MARK: Names and bytes

  /// The name of a field's attribute.
  ///
  /// - Parameter code: that of the error for a key that no field can have.
  static func name(of key: String, _ code: CocoaError.Code, _ path: String) throws(CocoaError) -> PathName {
    let name = PathName(FieldName.prefix + key)
    // XATTR_NAME_MAX is 255.
    guard !key.isEmpty, !key.utf8.contains(0), FieldName.isOne(name), name.bytes.count <= 255 else {
      throw CocoaError(
        code,
        userInfo: [
          NSFilePathErrorKey: path, NSURLErrorKey: URL(fileURLWithPath: path),
          NSLocalizedDescriptionKey: """
          no field can have the key \(key.debugDescription): a key has 1 to 250 bytes, no NUL, and does not begin with \
          protectfs.
          """,
        ])
    }
    return name
  }

  /// The path, if it is on a mount. Elsewhere the fields would not be encrypted.
  private static func protectedPath(of url: URL, _ access: CocoaError.Access = .reading) throws -> String {
    let path = try FileManager.path(of: url, for: access)
    return try translating(access, path) { () throws(Errno) in
      guard try MountedFileSystem.find(containing: path) != nil else { throw .notSupported }
      return path
    }
  }
}
