import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// What protects a file or directory on a mount: its class, and its encrypted fields.
struct ItemProtection {
  let protectionClass: ProtectionClass
  /// Whether the class was set, not inherited.
  let isExplicit: Bool
  private let fields: [(name: PathName, value: [UInt8])]

  /// Reads it from an item on a mount, which may have been opened with `O_PATH`.
  ///
  /// - Throws: `EACCES` if there are fields and the class is locked.
  init(of item: borrowing Descriptor) throws(Errno) {
    let path = PathName(descriptor: item)
    let names = try path.attributeNames()
    isExplicit = names.contains(ProtectionClass.attribute)
    let name = String(decoding: try path.attribute(ProtectionClass.attribute), as: UTF8.self)
    guard let protectionClass = ProtectionClass(name: name) else { throw .notSupported }
    self.protectionClass = protectionClass
    var fields: [(PathName, [UInt8])] = []
    for name in names where FieldName.isOne(name) { fields.append((name, try path.attribute(name))) }
    self.fields = fields
  }

  var hasFields: Bool { !fields.isEmpty }

  /// Whether something would be lost outside of a mount: fields, or a class that a lock makes unavailable.
  var needsMount: Bool { protectionClass.losesKey || hasFields }

  /// Sets the fields of another item.
  ///
  /// - Parameter kept: the names of those that the other item has, and keeps.
  func setFields(of item: borrowing Descriptor, except kept: [PathName] = []) throws(Errno) {
    let path = PathName(descriptor: item)
    for field in fields where !kept.contains(field.name) { try path.setAttribute(field.name, to: field.value) }
  }
}
