import Foundation

/// A record: named, typed values that are encrypted, as CloudKit's `CKRecord` has them, and files that belong to it.
///
/// A record is changed in memory, and read and saved by its ``ProtectedZone``.
///
/// ```swift
/// let record = try zone.record(named: "letter")
/// record.encryptedValues["author"] = "Ana"
/// let author = record.encryptedValues["author"] as? String
/// try zone.save(record)
/// ```
public final class ProtectedRecord {
  /// Its name in the zone.
  public let name: String
  /// Its fields. All are encrypted, so there is no choice between these and others, and no index.
  public let encryptedValues: Values
  /// Where it is stored; `nil` for a new record.
  private(set) var origin: RecordOrigin?

  /// A new record, without fields.
  public convenience init(named name: String) {
    self.init(named: name, [:], nil)
  }

  init(named name: String, _ values: [String: EncryptedValue], _ origin: RecordOrigin?) {
    self.name = name
    encryptedValues = Values(values)
    self.origin = origin
  }

  /// Takes note that all changes are stored.
  func saved(_ origin: RecordOrigin) {
    self.origin = origin
    encryptedValues.saved()
  }

  /// The fields of a record.
  public final class Values {
    private var values: [String: Result<EncryptedValue, any Error>]
    /// The keys of the fields that were set or removed since the record was read or saved.
    private var changes: Set<String> = []

    fileprivate init(_ values: [String: EncryptedValue]) {
      self.values = values.mapValues { .success($0) }
    }

    /// The value of a field, for `as?`; `nil` if it does not exist. Setting it to `nil` removes the field.
    ///
    /// Takes and returns `String`, `Data`, `Date`, numbers, `Bool`, arrays and dictionaries of these, and property
    /// lists of Foundation's classes. ``ProtectedZone/save(_:)`` throws for a value of another type, which could not be
    /// cast to that when it is read: ``set(_:forKey:)`` takes any `Codable` one.
    public subscript(key: String) -> Any? {
      get { try? values[key]?.get().propertyList }
      set {
        values[key] = EncryptedValue.unwrapped(newValue).map { value in
          Result { try EncryptedValue(castable: value) }
        }
        changes.insert(key)
      }
    }

    /// Sets a field to a value of a `Codable` type, or removes it if the value is `nil`. It is read by
    /// ``value(forKey:as:)``.
    public func set<Value: Encodable>(_ value: Value?, forKey key: String) {
      values[key] = EncryptedValue.unwrapped(value).map { value in Result { try EncryptedValue(value) } }
      changes.insert(key)
    }

    /// The value of a field as one of a `Codable` type; `nil` if the field does not exist.
    ///
    /// - Throws: `CocoaError.fileReadCorruptFile` if it has another type.
    public func value<Value: Decodable>(forKey key: String, as type: Value.Type = Value.self) throws -> Value? {
      guard let value = values[key] else { return nil }
      do {
        return try value.get().decoded(as: type)
      } catch {
        throw CocoaError(
          .fileReadCorruptFile,
          userInfo: [NSUnderlyingErrorKey: error, NSDebugDescriptionErrorKey: "the field \(key) is no \(Value.self)"])
      }
    }

    /// The names of all fields, sorted.
    public func allKeys() -> [String] { values.keys.sorted() }

    /// The names of the fields that were set or removed since the record was read or saved, sorted.
    public func changedKeys() -> [String] { changes.sorted() }

    /// What has to be stored: the values, `nil` for a field that was removed.
    ///
    /// - Parameter isNew: whether the zone does not have this record, so that all fields are new to it.
    /// - Throws: `CocoaError.coderInvalidValue` for a value that is neither `Codable` nor a property list.
    func changes(isNew: Bool) throws -> [String: EncryptedValue?] {
      let keys = isNew ? changes.union(values.keys) : changes
      return try Dictionary(uniqueKeysWithValues: keys.map { ($0, try encoded($0)) })
    }

    private func encoded(_ key: String) throws -> EncryptedValue? {
      do {
        return try values[key]?.get()
      } catch {
        throw CocoaError(
          .coderInvalidValue,
          userInfo: [
            NSUnderlyingErrorKey: error,
            NSLocalizedDescriptionKey: "the value of the field \(key) cannot be stored: \(error)",
          ])
      }
    }

    fileprivate func saved() { changes = [] }
  }
}
