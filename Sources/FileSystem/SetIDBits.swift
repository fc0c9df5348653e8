import BackingTree
import FUSE
import FileProtection
import ProtectfsIO
import SystemPackage

// Set-user-ID and set-group-ID bits go when somebody changes the contents or the owner (chown(2), inode(7)). With
// FUSE_HANDLE_KILLPRIV_V2 that is the daemon's to do; the rules are those of `setattr_should_drop_suidgid` in fs/attr.c.
extension ProtectedFileSystem {
  /// The bits that a change by `caller` takes off a file.
  func setIDBits(lostBy caller: Caller, of status: Status) -> UInt32 {
    guard status.type != .directory else { return 0 }
    let bits = status.permissions & 0o6000
    // Without group execution the bit does not make a program run as the group: the group's members may keep it.
    let isMembers = bits & 0o2000 != 0 && status.permissions & 0o010 == 0 && isMember(caller, of: status.group)
    return isMembers ? bits & 0o4000 : bits
  }

  private func isMember(_ caller: Caller, of group: UInt32) -> Bool {
    if caller.user == 0 || caller.group == group { return true }
    // A caller that has ended meanwhile is nobody's member: the bit goes.
    return (try? Process.groups(of: caller.process))?.contains(group) ?? false
  }

  /// Takes the bits off a file that somebody changes, as write(2) and truncate(2) must. Returns whether it had any.
  @discardableResult
  func clearSetID(of descriptor: borrowing Descriptor, for caller: Caller) throws(Errno) -> Bool {
    let status = try descriptor.status()
    let lost = setIDBits(lostBy: caller, of: status)
    guard lost != 0 else { return false }
    try tree.setPermissions(status.permissions & ~lost, of: descriptor)
    return true
  }

  /// The same for a request that is not answered with the file's attributes: the kernel would go on with the mode that it
  /// has, and execve(2) give what the bits gave.
  func clearSetID(of file: ProtectedFile, _ node: NodeID, for caller: Caller) throws(Errno) {
    let hasChanged = try tree.withoutRekey(of: self.node(node)) { () throws(Errno) in
      try file.withDescriptor { (descriptor) throws(Errno) in try clearSetID(of: descriptor, for: caller) }
    }
    if hasChanged { kernelAttributes.invalidate(node) }
  }

  /// Takes the set-group-ID bit off a file or directory that has been given an ACL by somebody who is not in its group
  /// (`posix_acl_update_mode` in fs/posix_acl.c): the backing file system would, were it the caller who asks it. The kernel
  /// asks for the mode after this request.
  func clearSetGroupID(of node: Node, for caller: Caller) throws(Errno) {
    let reference = try tree.reference(to: node)
    try reference.withDescriptor { (descriptor) throws(Errno) in
      let status = try descriptor.status()
      guard status.permissions & 0o2000 != 0, !isMember(caller, of: status.group) else { return }
      try tree.setPermissions(status.permissions & ~0o2000, of: descriptor)
      if node.isDirectory { node.state.withLock { $0.setsGroup = false } }
    }
  }

  /// A change of owner, which takes the bits away too: those that the old group says, so they are looked at first. It
  /// moves the change time also when it changes nothing.
  ///
  /// A change of nothing also announces a write(2), which says itself whether it clears bits: made to a regular file by
  /// others than its owner it is therefore nothing.
  ///
  /// - Throws: `EPERM` when the bits of another's file would change and nothing else.
  func setOwner(of descriptor: borrowing Descriptor, to changes: AttributeChanges, caller: Caller) throws(Errno) {
    let status = try descriptor.status()
    let lost = setIDBits(lostBy: caller, of: status)
    if changes.isEmpty, lost != 0, caller.user != 0, caller.user != status.user {
      guard status.type == .regular else { throw .notPermitted }
      return
    }
    try descriptor.setOwner(user: changes.user, group: changes.group)
    if lost != 0, changes.mode == nil { try tree.setPermissions(status.permissions & ~lost, of: descriptor) }
  }
}
