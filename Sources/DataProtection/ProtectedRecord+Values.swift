import Foundation

// What CloudKit's `CKRecordKeyValueSetting` has besides.
extension ProtectedRecord.Values {
  /// The value of a field; `nil` if the field does not exist, or has another type.
  public subscript<Value: Decodable>(key: String) -> Value? {
    try? value(forKey: key)
  }

  /// The value of a field, for `as?`; `nil` if it does not exist.
  public func object(forKey key: String) -> Any? { self[key] as Any? }

  /// Sets a field, or removes it if the value is `nil`. ``ProtectedZone/save(_:)`` throws for a value that cannot be
  /// stored.
  public func setObject(_ object: Any?, forKey key: String) { self[key] = object }
}
