import BackingTree
import Cryptography
import FUSE
import FileProtection
import KeyManagement
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

// Extended attributes. `user.protectfs.class` is the class, and `user.protectfs.state` of the root is the lock state.
// Other `user.` attributes are encrypted, name and value. The rest (`security.`, `trusted.`, ACLs) are those of the
// backing file. The store's records are not shown.
extension ProtectedFileSystem {
  /// The access ACL, as opposed to the default ACL that new entries of a directory get (acl(5)).
  private static let accessACL: PathName = "system.posix_acl_access"

  private enum Space {
    case fileClass, rewrappedClass, rekey, lockState, own, user, other

    /// - Throws: `EINVAL` for `user.` alone, which is no name.
    init(_ name: PathName) throws(Errno) {
      let text = name.description
      if text == "user." { throw .invalidArgument }
      if text == ProtectionClass.attributeName {
        self = .fileClass
      } else if text == ProtectionClass.rewrapAttributeName {
        self = .rewrappedClass
      } else if text == ProtectionClass.rekeyAttributeName {
        self = .rekey
      } else if text == LockState.attributeName {
        self = .lockState
      } else if text.hasPrefix("user.protectfs.") {
        self = .own
      } else {
        self = text.hasPrefix("user.") ? .user : .other
      }
    }
  }

  package func attribute(_ name: PathName, of id: NodeID, caller: Caller) throws(Errno) -> [UInt8] {
    let node = node(id)
    switch try Space(name) {
    case .fileClass: return Array(try tree.protectionClass(of: node).0.name.utf8)
    case .lockState:
      // Takes no lock, so a reader gets an answer even while keys are being wiped.
      guard node === tree.nodes.root else { throw .noData }
      return Array(tree.controller.lockState.rawValue.utf8)
    case .rekey:
      guard try tree.currentRecord(of: node)?.pending != nil else { throw .noData }
      return Array("pending".utf8)
    case .rewrappedClass, .own: throw .noData
    case .other: return try backingAttribute(name, of: node)
    case .user:
      let stored = try backingAttributeName(name)
      // A missing attribute is reported whatever the class.
      _ = try backingAttribute(stored, of: node)
      return try reportingDenial(of: .attribute, on: node, by: caller) { () throws(Errno) in
        try withValueCiphers(of: node, writing: false) { (ciphers) throws(Errno) in
          let encrypted = try backingAttribute(stored, of: node)
          return try decryptValue(encrypted, name: name, of: node, ciphers)
        }
      }
    }
  }

  package func setAttribute(
    _ name: PathName, of id: NodeID, to value: [UInt8], mode: AttributeMode, caller: Caller
  ) throws(Errno) {
    let node = node(id)
    switch try Space(name) {
    case .fileClass: try setClass(value, of: node, mode, .onRaise, caller)
    case .rewrappedClass: try setClass(value, of: node, mode, .never, caller)
    case .rekey:
      try requireOwner(of: node, caller)
      try reportingDenial(of: .rewrapFrom, on: node, by: caller) { () throws(Errno) in try tree.rekey(node) }
    case .lockState, .own: throw .notSupportedOnSocket
    case .other:
      try tree.holdingPrivileges(of: node) { () throws(Errno) in
        try withPath(of: node) { (path) throws(Errno) in try path.setAttribute(name, to: value, mode: mode) }
        if name == Self.accessACL { try clearSetGroupID(of: node, for: caller) }
      }
    case .user:
      guard name.bytes.count <= 255 else { throw .outOfRange }
      let stored = try backingAttributeName(name)
      try reportingDenial(of: .attribute, on: node, by: caller) { () throws(Errno) in
        try withValueCiphers(of: node, writing: true) { (ciphers) throws(Errno) in
          let encrypted = try encryptValue(value, name: name, of: node, ciphers)
          try withPath(of: node) { (path) throws(Errno) in try path.setAttribute(stored, to: encrypted, mode: mode) }
        }
      }
    }
  }

  private func setClass(
    _ value: [UInt8], of node: Node, _ mode: AttributeMode, _ rekeying: BackingTree.Rekeying, _ caller: Caller
  ) throws(Errno) {
    guard mode != .create, mode != .createAndReplace else { throw .fileExists }
    guard let newClass = ProtectionClass(name: String(decoding: value, as: UTF8.self)) else { throw .invalidArgument }
    try requireOwner(of: node, caller)
    try reportingDenial(ofClass: newClass, for: node, by: caller) { () throws(Errno) in
      try tree.setClass(newClass, of: node, rekeying)
    }
  }

  package func removeAttribute(_ name: PathName, of id: NodeID, caller: Caller) throws(Errno) {
    let node = node(id)
    switch try Space(name) {
    case .fileClass:
      // The class stays, but counts as inherited again.
      let (fileClass, isExplicit) = try tree.protectionClass(of: node)
      guard isExplicit else { throw .noData }
      try requireOwner(of: node, caller)
      try tree.setClass(fileClass, of: node, isExplicit: false)
    case .lockState: throw .notSupportedOnSocket
    case .rewrappedClass, .rekey, .own: throw .noData
    case .other:
      try tree.holdingPrivileges(of: node) { () throws(Errno) in
        try withPath(of: node) { (path) throws(Errno) in try path.removeAttribute(name) }
      }
    case .user:
      let stored = try backingAttributeName(name)
      try withPath(of: node) { (path) throws(Errno) in try path.removeAttribute(stored) }
    }
  }

  /// Lists names even while locked, because names are encrypted under the volume key. The class is listed if it is
  /// explicit. Attributes that the caller may not see, and damaged ones, are left out.
  package func attributeNames(of id: NodeID, caller: Caller) throws(Errno) -> [UInt8] {
    try attributeNames(of: id, caller: caller) { _ in }
  }

  /// - Parameter damaged: told the stored name of each damaged attribute.
  package func attributeNames(
    of id: NodeID, caller: Caller, damaged: (PathName) -> Void
  ) throws(Errno) -> [UInt8] {
    let node = node(id)
    var list: [UInt8] = []
    let reference = try tree.reference(to: node)
    try reference.withDescriptor { (descriptor) throws(Errno) in
      let path = PathName(descriptor: descriptor)
      for stored in try path.attributeNames() {
        let text = stored.description
        if AttributeEncoding.isBackingName(stored.bytes) {
          let value = try tree.ownerPermissions.ensuring(on: descriptor) { () throws(Errno) in
            try path.attribute(stored)
          }
          if let name = plainAttributeName(value, storedAs: stored, node) {
            list += name.terminated
          } else {
            damaged(stored)
          }
        } else if text.hasPrefix("trusted.") {
          // The kernel checks who reads such an attribute, but not who lists it (xattr(7)).
          if caller.user == 0 { list += stored.terminated }
        } else if !text.hasPrefix("user.") {
          list += stored.terminated
        }
      }
    }
    if node.isRegular || node.isDirectory, try tree.protectionClass(of: node).isExplicit {
      list += PathName(ProtectionClass.attributeName).terminated
    }
    return list
  }

  /// An attribute of the backing file. An open file is asked by its descriptor, which is faster than by a path: before
  /// the first write to each file, the kernel asks for `security.capability`.
  private func backingAttribute(_ name: PathName, of node: Node) throws(Errno) -> [UInt8] {
    if let file = node.file {
      return try file.withDescriptor { (descriptor) throws(Errno) in try descriptor.attribute(name) }
    }
    return try withPath(of: node) { (path) throws(Errno) in try path.attribute(name) }
  }

  /// Calls `body` with a path of the node that works for any type of file. Links are not followed, since the path is
  /// that of the descriptor.
  private func withPath<Result>(
    of node: Node, _ body: (PathName) throws(Errno) -> Result
  ) throws(Errno) -> Result {
    let reference = try tree.reference(to: node)
    return try reference.withDescriptor { (descriptor) throws(Errno) in try body(PathName(descriptor: descriptor)) }
  }

  // MARK: Encrypted extended attributes

  private func backingAttributeName(_ name: PathName) throws(Errno) -> PathName {
    do throws(CryptographyError) {
      return PathName(bytes: try tree.volume.backingAttributeName(Array(name.bytes)))
    } catch {
      throw tree.errno(error)
    }
  }

  /// The plain name of a stored attribute; `nil` for a damaged one, which must not hide the others.
  private func plainAttributeName(_ value: [UInt8], storedAs stored: PathName, _ node: Node) -> PathName? {
    do {
      let encrypted = try AttributeEncoding.parse(value).encryptedName
      let name = try tree.volume.attributeNames.decrypt(encrypted, associatedData: nil)
      guard try tree.volume.backingAttributeName(name) == Array(stored.bytes) else {
        throw CryptographyError.notAuthentic
      }
      return PathName(bytes: name)
    } catch {
      tree.damaged(node, "an extended attribute cannot be read: \(error)")
      return nil
    }
  }

  private func decryptValue(
    _ stored: [UInt8], name: PathName, of node: Node, _ ciphers: AttributeCiphers
  ) throws(Errno) -> [UInt8] {
    do {
      let encrypted = try AttributeEncoding.parse(stored).encryptedValue
      return try ciphers.decrypt(encrypted, associatedData(of: name, node)).value
    } catch {
      tree.damaged(node, "an extended attribute cannot be read: \(error)")
      throw .ioError
    }
  }

  private func encryptValue(
    _ value: [UInt8], name: PathName, of node: Node, _ ciphers: AttributeCiphers
  ) throws(Errno) -> [UInt8] {
    let associatedData = try associatedData(of: name, node)
    do throws(CryptographyError) {
      return AttributeEncoding.value(
        encryptedName: try tree.volume.attributeNames.encrypt(Array(name.bytes), associatedData: nil),
        encryptedValue: try ciphers.current.encrypt(value, associatedData: associatedData))
    } catch {
      throw tree.errno(error)
    }
  }

  /// The associated data of a value: its name and, for a directory, the directory's ID, because all directories share
  /// one key.
  private func associatedData(of name: PathName, _ node: Node) throws(Errno) -> [UInt8] {
    node.isDirectory ? try tree.directory(node).record.identifier + name.bytes : Array(name.bytes)
  }

  /// Runs `body` with the ciphers of attribute values. Those of a file use the file's own key, which does not change
  /// meanwhile; those of a directory use the volume's. Before a value is written, the file gets a record, and with it a
  /// key that lasts.
  private func withValueCiphers<Result>(
    of node: Node, writing: Bool, _ body: (AttributeCiphers) throws(Errno) -> Result
  ) throws(Errno) -> Result {
    if node.isDirectory { return try body(AttributeCiphers(current: tree.volume.directoryAttributes)) }
    guard node.isRegular else { throw .notPermitted }
    return try tree.withOpenFile(node, for: .attribute, writing: writing) { (file) throws(Errno) in
      try file.keepingKey { () throws(Errno) in
        try body(tree.attributeCiphers(of: file.record))
      }
    }
  }
}
