import ProtectfsIO
import SystemPackage

/// The POSIX ACLs of a file or directory, which are extended attributes (acl(5)).
///
/// With an ACL the group's bits of a mode are what the ACL grants at most to all whom it names. Whoever copies a mode
/// without the ACL therefore gives that to the owning group.
struct AccessLists: Sendable {
  static let access: PathName = "system.posix_acl_access"
  /// Only directories have one: it is for what is created in them.
  private static let standard: PathName = "system.posix_acl_default"

  private let access: [UInt8]?
  private let standard: [UInt8]?

  /// Reads them from an item, which may have been opened with `O_PATH`.
  init(of item: borrowing Descriptor) throws(Errno) {
    let path = PathName(descriptor: item)
    access = try Self.list(Self.access, of: path)
    standard = try Self.list(Self.standard, of: path)
  }

  var isEmpty: Bool { access == nil && standard == nil }

  private static func list(_ name: PathName, of path: PathName) throws(Errno) -> [UInt8]? {
    do throws(Errno) {
      return try path.attribute(name)
    } catch {
      // None, or a file system without.
      guard error == .noData || error == .notSupported else { throw error }
      return nil
    }
  }

  /// Gives the access ACL to another item.
  ///
  /// - Parameters:
  ///   - permissions: those of the item that the lists are of.
  ///   - isReplacing: whether an ACL of the other item goes if there is none here.
  /// - Returns: the permissions that the other item is to get then: where its file system has no ACLs, the group gets
  ///   only what the ACL grants it.
  func setAccess(
    of other: borrowing Descriptor, _ permissions: UInt32, isReplacing: Bool = false
  ) throws(Errno) -> UInt32 {
    let path = PathName(descriptor: other)
    guard let access else {
      if isReplacing { try Self.remove(Self.access, of: path) }
      return permissions
    }
    do throws(Errno) {
      try path.setAttribute(Self.access, to: access)
      return permissions
    } catch .notSupported {
      return permissions & (~0o070 | Self.permissionsOfGroup(access) << 3)
    }
  }

  /// Gives the default ACL to another directory, in which nothing is created afterwards that is not to have it.
  func setStandard(of other: borrowing Descriptor, isReplacing: Bool = false) throws(Errno) {
    let path = PathName(descriptor: other)
    guard let standard else {
      if isReplacing { try Self.remove(Self.standard, of: path) }
      return
    }
    do throws(Errno) {
      try path.setAttribute(Self.standard, to: standard)
    } catch .notSupported {
      // What is created there is as its creator says.
    }
  }

  private static func remove(_ name: PathName, of path: PathName) throws(Errno) {
    do throws(Errno) {
      try path.removeAttribute(name)
    } catch {
      guard error == .noData || error == .notSupported else { throw error }
    }
  }

  /// What the owning group may do by the entry that is its own, from 0 to 7; nothing if there is none.
  ///
  /// An ACL is a version of four bytes, and entries of eight: tag, permissions, identity (linux/posix_acl_xattr.h).
  private static func permissionsOfGroup(_ list: [UInt8]) -> UInt32 {
    let ownGroup: UInt8 = 4
    let entries = stride(from: 4, through: list.count - 8, by: 8)
    let entry = entries.first { list[$0] == ownGroup && list[$0 + 1] == 0 }
    return entry.map { UInt32(list[$0 + 2]) & 7 } ?? 0
  }
}
