import BackingTree
import FUSE
import FileProtection
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// Set-user-ID and set-group-ID bits are removed when a file's contents or owner change (chown(2), inode(7)). With
// FUSE_HANDLE_KILLPRIV_V2 the daemon has to do so, by the rules of `setattr_should_drop_suidgid` in fs/attr.c.
extension ProtectedFileSystem {
  /// The bits that a change by `caller` removes from a file.
  func setIDBits(lostBy caller: Caller, of status: Status) -> UInt32 {
    guard status.type != .directory else { return 0 }
    let bits = status.permissions & 0o6000
    // Without group execution the bit does not make a program run as the group, so members of the group may keep it.
    let isMembers = bits & 0o2000 != 0 && status.permissions & 0o010 == 0 && isMember(caller, of: status.group)
    return isMembers ? bits & 0o4000 : bits
  }

  private func isMember(_ caller: Caller, of group: UInt32) -> Bool {
    if caller.user == 0 || caller.group == group { return true }
    // A caller that has ended is in no group, so the bit is removed.
    return (try? Process.groups(of: caller.process))?.contains(group) ?? false
  }

  /// Removes the bits from a file that a caller changes, as write(2) and truncate(2) must. Returns whether it had any.
  @discardableResult
  func clearSetID(of descriptor: borrowing Descriptor, for caller: Caller) throws(Errno) -> Bool {
    let status = try descriptor.status()
    let lost = setIDBits(lostBy: caller, of: status)
    guard lost != 0 else { return false }
    try tree.ownerPermissions.set(status.permissions & ~lost, of: descriptor)
    return true
  }

  /// Removes the bits for a request whose answer does not contain the file's attributes. Without an invalidation the
  /// kernel would keep the old mode, and execve(2) would still grant what the bits grant.
  ///
  /// It comes before the change, as in the kernel: contents that were changed no longer have the bits, whatever comes
  /// between.
  ///
  /// - Throws: `EACCES` if the class does not allow the operation, which waits for nothing.
  func clearSetID(
    of file: ProtectedFile, _ node: NodeID, before operation: ProtectionPolicy.Operation, for caller: Caller
  ) throws(Errno) {
    try file.requireNotDenied(operation)
    let hasChanged = try tree.holdingPrivileges(of: self.node(node)) { () throws(Errno) in
      try file.withDescriptor { (descriptor) throws(Errno) in try clearSetID(of: descriptor, for: caller) }
    }
    if hasChanged { kernelAttributes.invalidate(node) }
  }

  /// Removes the set-group-ID bit from a file or directory that a caller outside its group has given an ACL
  /// (`posix_acl_update_mode` in fs/posix_acl.c). The backing file system does so only when the caller itself asks it.
  /// The kernel requests the mode after this request.
  func clearSetGroupID(of node: Node, for caller: Caller) throws(Errno) {
    let reference = try tree.reference(to: node)
    try reference.withDescriptor { (descriptor) throws(Errno) in
      let status = try descriptor.status()
      guard status.permissions & 0o2000 != 0, !isMember(caller, of: status.group) else { return }
      try tree.ownerPermissions.set(status.permissions & ~0o2000, of: descriptor)
      if node.isDirectory { node.state.withLock { $0.setsGroup = false } }
    }
  }

  /// Changes the owner, which also removes the bits. They depend on the old group, so they are read first. The change
  /// time moves even if nothing else changes.
  ///
  /// An empty change also announces a write(2), and the write itself says whether it clears bits. An empty change of a
  /// regular file by a caller other than the owner is therefore ignored.
  ///
  /// - Throws: `EPERM` if only the bits of another user's file would change.
  func setOwner(of descriptor: borrowing Descriptor, to changes: AttributeChanges, caller: Caller) throws(Errno) {
    let status = try descriptor.status()
    let lost = setIDBits(lostBy: caller, of: status)
    if changes.isEmpty, lost != 0, caller.user != 0, caller.user != status.user {
      guard status.type == .regular else { throw .notPermitted }
      return
    }
    try descriptor.setOwner(user: changes.user, group: changes.group)
    if lost != 0, changes.mode == nil { try tree.ownerPermissions.set(status.permissions & ~lost, of: descriptor) }
  }
}
