import ProtectfsIO

/// The names of extended attributes that are encrypted fields.
package enum FieldName {
  package static let prefix = "user."
  /// The prefix of attributes that the mount itself provides.
  private static let ownPrefix = "user.protectfs."

  /// Whether an attribute with that name is a field: any but those of the kernel and of the mount.
  package static func isOne(_ name: PathName) -> Bool {
    name.bytes.starts(with: prefix.utf8) && !name.bytes.starts(with: ownPrefix.utf8)
  }
  /// The key of a field with that name.
  package static func key(_ name: PathName) -> String {
    String(decoding: name.bytes.dropFirst(prefix.utf8.count), as: UTF8.self)
  }
}
