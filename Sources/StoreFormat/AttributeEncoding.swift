/// Extended attributes of the user namespace as the backing file has them: the name hashed, and in the value the name and
/// the value, both sealed.
///
/// `value = n (1 byte) ‖ sealed name (16 + n) ‖ sealed value (16 + m)`, n being the length of the whole name.
package enum AttributeEncoding {
  /// What the backing names begin with.
  package static let prefix = "user.protectfs.x."
  /// By how much a value is longer in the backing file, beside the length of its name, in bytes.
  package static let overhead = 1 + 16 + 16

  /// The backing name for 16 bytes of hash of a name.
  package static func backingName(hash: [UInt8]) -> [UInt8] {
    Array(prefix.utf8) + Base64URL.encode(hash)
  }

  /// Whether a backing name is one of an encrypted attribute.
  package static func isBackingName(_ name: some Collection<UInt8>) -> Bool {
    name.count == prefix.utf8.count + 22 && name.starts(with: prefix.utf8)
      && Base64URL.decode(name.dropFirst(prefix.utf8.count)) != nil
  }

  /// The backing value.
  package static func value(sealedName: [UInt8], sealedValue: [UInt8]) -> [UInt8] {
    [UInt8(sealedName.count - 16)] + sealedName + sealedValue
  }

  /// The sealed name and the sealed value in a backing value.
  package static func parse(_ value: [UInt8]) throws(FormatError) -> (sealedName: [UInt8], sealedValue: [UInt8]) {
    var reader = ByteReader(value, record: .attribute)
    let length = Int(try reader.readInteger("length of the name", as: UInt8.self))
    try reader.require(length > 0, "length of the name", "is 0")
    let name = try reader.read(length + 16, "sealed name")
    let rest = value.count - reader.position
    try reader.require(rest >= 16, "sealed value", "is cut off")
    return (name, try reader.read(rest, "sealed value"))
  }
}
