import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// The class that an item passes on to the one that replaces it, and to what is in that, wherever the new one has no
/// explicit class itself.
///
/// A rename passes on the explicit class of a file alone: a new item that was made elsewhere would keep the class that
/// it has inherited there.
struct ReplacedClass {
  private let protectionClass: ProtectionClass
  /// Whether the new item has it explicitly.
  private let isExplicit: Bool

  private typealias Directory = NestedDirectory<SharedDescriptor, Void>
  private typealias Descent = TreeDescent<SharedDescriptor, Void>

  /// - Parameters:
  ///   - old: what protects the replaced item.
  ///   - directory: where it is.
  init(_ old: ItemProtection, in directory: borrowing Descriptor) throws(Errno) {
    protectionClass = old.protectionClass
    let passedOn = try PathName(descriptor: directory).attribute(ProtectionClass.attribute)
    // An item that was moved here may have inherited another class than this directory passes on.
    isExplicit = old.isExplicit || passedOn != Array(old.protectionClass.name.utf8)
  }

  /// Gives the class to an item, which may have been opened with `O_PATH`, and to what is in it.
  ///
  /// - Throws: `EACCES` if the class is locked, or that of something in it.
  func assign(to item: SharedDescriptor) throws(Errno) {
    guard try assign(to: item, explicitly: isExplicit), try item.descriptor.status().type == .directory else { return }
    var descent = Descent()
    try enter(Directory("", item, (), in: nil, open: { (item) in item }), item, &descent)
    while let directory = descent.directory {
      guard let name = descent.nextName() else {
        descent.leave()
        continue
      }
      let item = SharedDescriptor(try descent.item().descriptor.open(name, [.path, .noFollow]))
      let status = try item.descriptor.status()
      guard status.type == .regular || status.type == .directory, status.is_mount_root == 0,
        try assign(to: item, explicitly: false), status.type == .directory
      else { continue }
      try enter(Directory(name, item, (), in: directory), item, &descent)
    }
  }

  private func enter(
    _ directory: Directory, _ item: SharedDescriptor, _ descent: inout Descent
  ) throws(Errno) {
    let names = try item.descriptor.names()
    descent.enter(directory, item, names)
  }

  /// Returns `false` for an item that keeps its own class, which it has explicitly.
  private func assign(to item: SharedDescriptor, explicitly: Bool) throws(Errno) -> Bool {
    let path = PathName(descriptor: item.descriptor)
    if try path.attributeNames().contains(ProtectionClass.attribute) { return false }
    let name = Array(protectionClass.name.utf8)
    let found = try path.attribute(ProtectionClass.attribute)
    if found == name, !explicitly { return true }
    try path.setAttribute(ProtectionClass.attribute, to: name)
    // It stays in the class, and has inherited it.
    if !explicitly { try path.removeAttribute(ProtectionClass.attribute) }
    return true
  }
}
