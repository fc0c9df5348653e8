import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// Where a stand-in keeps classes. As on a mount, an item keeps its class when it is moved, or when its directory gets
// another, and copies take over only a class that was set.
extension StandIn {
  /// The class of a file or directory, and whether it was set.
  struct Record {
    let protectionClass: ProtectionClass
    let isExplicit: Bool
  }

  /// The class that was set.
  static let explicitName = PathName(ProtectionClass.attributeName)
  /// The class that the item was created in, which it has from then on. It is noted when the directory that it is in
  /// may have another.
  static let inheritedName: PathName = "user.protectfs.stand-in.inherited"

  /// The class of an item; `nil` if it is neither a file nor a directory.
  func record(of item: StandInItem) throws(Errno) -> Record? {
    guard item.isRegular || item.isDirectory else { return nil }
    if let withheld = withheld(item) { return withheld.record }
    if let set = try storedClass(Self.explicitName, of: item) {
      return Record(protectionClass: set, isExplicit: true)
    }
    if let inherited = try storedClass(Self.inheritedName, of: item) {
      return Record(protectionClass: inherited, isExplicit: false)
    }
    // The root always has one.
    guard try item.path.canonical() != root else { throw .ioError }
    return try record(of: item.parent).map { Record(protectionClass: $0.protectionClass, isExplicit: false) }
  }

  private func storedClass(_ name: PathName, of item: StandInItem) throws(Errno) -> ProtectionClass? {
    do throws(Errno) {
      let value = try withPermissions(of: item) { () throws(Errno) in try item.path.attribute(name) }
      return ProtectionClass(name: String(decoding: value, as: UTF8.self))
    } catch .noData {
      return nil
    }
  }

  /// Notes the class of an item.
  func store(_ record: Record, in item: StandInItem) throws(Errno) {
    let (name, other) =
      record.isExplicit ? (Self.explicitName, Self.inheritedName) : (Self.inheritedName, Self.explicitName)
    try withPermissions(of: item) { () throws(Errno) in
      try item.path.setAttribute(name, to: Array(record.protectionClass.name.utf8))
      do throws(Errno) {
        try item.path.removeAttribute(other)
      } catch {
        if error != .noData { throw error }
      }
    }
  }

  /// Runs `body`, which reads or sets extended attributes, also of a locked file.
  func withPermissions<Result>(of item: StandInItem, _ body: () throws(Errno) -> Result) throws(Errno) -> Result {
    try item.withOwnerPermissions(leaving: withheld(item) == nil ? item.status.permissions : 0, body)
  }

  /// Notes the class that an item has now, so that it keeps it elsewhere.
  func keepClass(of item: StandInItem) throws(Errno) {
    // A locked file has it noted.
    if withheld(item) == nil, let record = try record(of: item), !record.isExplicit { try store(record, in: item) }
  }

  /// Sets a class.
  ///
  /// - Throws: `EACCES` if the old or the new class of a file is not usable now.
  func assign(_ protectionClass: ProtectionClass, to item: StandInItem, isExplicit: Bool = true) throws(Errno) {
    if item.isRegular, let record = try record(of: item) {
      try require(.rewrapFrom, record.protectionClass)
      try require(.rewrapTo, protectionClass)
    } else {
      // The root's class is that of the volume.
      if protectionClass == .none, try item.path.canonical() == root { throw .invalidArgument }
      // What is in a directory keeps its class.
      for name in try item.names() { try keepClass(of: StandInItem(name, in: item)) }
    }
    try store(Record(protectionClass: protectionClass, isExplicit: isExplicit), in: item)
    try update(item, for: lockState)
  }
}
