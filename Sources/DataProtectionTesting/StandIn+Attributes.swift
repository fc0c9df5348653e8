import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// Extended attributes in a stand-in: the class, the lock state, and the encrypted fields, which are not encrypted here.
// Each call throws what a mount would, or returns `nil` if the call is to be made.
extension StandIn {
  private enum Space {
    case fileClass, rewrappedClass, rekey, lockState, own, field, other

    init(_ name: PathName) throws(Errno) {
      switch name.description {
      case "user.": throw .invalidArgument
      case ProtectionClass.attributeName: self = .fileClass
      case ProtectionClass.rewrapAttributeName: self = .rewrappedClass
      case ProtectionClass.rekeyAttributeName: self = .rekey
      case LockState.attributeName: self = .lockState
      case let text where text.hasPrefix("user.protectfs."): self = .own
      case let text: self = text.hasPrefix("user.") ? .field : .other
      }
    }
  }

  /// The value of an attribute.
  func attribute(_ name: PathName, of item: StandInItem) throws(Errno) -> [UInt8]? {
    switch try Space(name) {
    case .fileClass:
      guard let record = try record(of: item) else { throw .noData }
      return Array(record.protectionClass.name.utf8)
    case .lockState:
      guard try item.path.canonical() == root else { throw .noData }
      return Array(lockState.rawValue.utf8)
    case .rewrappedClass, .rekey, .own: throw .noData
    case .field:
      // A missing attribute is reported whatever the class.
      guard try item.path.attributeNames().contains(name) else { throw .noData }
      try requireFields(of: item)
      return nil
    case .other: return nil
    }
  }

  /// - Throws: `EACCES` if the fields of a file cannot be used now.
  private func requireFields(of item: StandInItem) throws(Errno) {
    guard item.isRegular, let record = try record(of: item) else { return }
    try require(.attribute, record.protectionClass)
  }

  func setAttribute(
    _ name: PathName, of item: StandInItem, to value: [UInt8], mode: AttributeMode
  ) throws(Errno) -> Int? {
    switch try Space(name) {
    case .fileClass, .rewrappedClass:
      guard mode != .create, mode != .createAndReplace else { throw .fileExists }
      guard let protectionClass = ProtectionClass(name: String(decoding: value, as: UTF8.self)) else {
        throw .invalidArgument
      }
      guard item.isRegular || item.isDirectory else { return nil }
      try assign(protectionClass, to: item)
      return 0
    case .rekey:
      if item.isRegular, let record = try record(of: item) { try require(.rewrapFrom, record.protectionClass) }
      return 0
    case .lockState, .own: throw .notSupportedOnSocket
    case .field:
      try requireFields(of: item)
      return nil
    case .other: return nil
    }
  }

  func removeAttribute(_ name: PathName, of item: StandInItem) throws(Errno) -> Int? {
    switch try Space(name) {
    case .fileClass:
      guard let record = try record(of: item), record.isExplicit else { throw .noData }
      try assign(record.protectionClass, to: item, isExplicit: false)
      return 0
    case .lockState: throw .notSupportedOnSocket
    case .rewrappedClass, .rekey, .own: throw .noData
    case .field:
      // Needs no key.
      guard withheld(item) != nil else { return nil }
      try withPermissions(of: item) { () throws(Errno) in try item.path.removeAttribute(name) }
      return 0
    case .other: return nil
    }
  }

  /// The names of all attributes. The class is among them if it was set.
  func attributeNames(of item: StandInItem) throws(Errno) -> [UInt8] {
    let names = try item.path.attributeNames().filter { name in
      name == Self.explicitName || !name.bytes.starts(with: "user.protectfs.".utf8)
    }
    return Array(names.map(\.terminated).joined())
  }
}
