/// The encoding of extended attributes of the user namespace in the backing file. The backing name is a hash of the
/// name; the backing value contains the name and the value, both encrypted.
///
/// `value = n (1 byte) ‖ encrypted name (16 + n) ‖ encrypted value (16 + m)`, where n is the length of the whole name.
package enum AttributeEncoding {
  /// The prefix of backing names.
  package static let prefix = "user.protectfs.x."
  /// By how many bytes a backing value is longer than the value, not counting the name.
  package static let overhead = 1 + 16 + 16

  /// The backing name for a 16-byte hash of a name.
  package static func backingName(hash: [UInt8]) -> [UInt8] {
    Array(prefix.utf8) + Base64URL.encode(hash)
  }

  /// Whether a backing name belongs to an encrypted attribute.
  package static func isBackingName(_ name: some Collection<UInt8>) -> Bool {
    name.count == prefix.utf8.count + 22 && name.starts(with: prefix.utf8)
      && Base64URL.decode(name.dropFirst(prefix.utf8.count)) != nil
  }

  /// The backing value.
  package static func value(encryptedName: [UInt8], encryptedValue: [UInt8]) -> [UInt8] {
    [UInt8(encryptedName.count - 16)] + encryptedName + encryptedValue
  }

  /// The encrypted name and value in a backing value.
  package static func parse(_ value: [UInt8]) throws(FormatError) -> (encryptedName: [UInt8], encryptedValue: [UInt8]) {
    var reader = ByteReader(value, record: .attribute)
    let length = Int(try reader.readInteger("length of the name", as: UInt8.self))
    try reader.require(length > 0, "length of the name", "is 0")
    let name = try reader.read(length + 16, "encrypted name")
    let rest = value.count - reader.position
    try reader.require(rest >= 16, "encrypted value", "is cut off")
    return (name, try reader.read(rest, "encrypted value"))
  }
}
