import BackingTree
import FUSE
import ProtectfsIO
import SystemPackage

// A class decides who is kept from the contents, as a mode does: so it is changed by whom a mode is changed by, the file's
// owner and those with CAP_FOWNER (chmod(2), capabilities(7)). The kernel has asked for write permission only, which is
// what it takes to set any `user.` attribute.
extension ProtectedFileSystem {
  /// - Throws: `EPERM` when `caller` may not change the class of a node.
  func requireOwner(of node: Node, _ caller: Caller) throws(Errno) {
    try requireOwner(of: tree.status(of: node), caller)
  }

  /// - Throws: `EPERM` when `caller` may not change the class of the file or directory of that status.
  func requireOwner(of status: Status, _ caller: Caller) throws(Errno) {
    guard caller.user == status.user || caller.mayAct(as: status.user) else { throw .notPermitted }
  }
}

extension Caller {
  /// Whether the caller has CAP_FOWNER over what belongs to `owner`: in its user namespace, which `owner` must be known in
  /// (`inode_owner_or_capable` in fs/inode.c). Root of a namespace that any user may make is so nobody outside of it.
  fileprivate func mayAct(as owner: UInt32) -> Bool {
    do throws(Errno) {
      // Where the process does not speak for itself, its capabilities are not those of the call.
      guard let own = try Process.capabilities(of: process, as: user) else { return user == 0 }
      guard own.contains(.actAsOwner) else { return false }
      return try Process.knows(user: owner, process)
    } catch {
      // A process that the daemon does not see: of another PID namespace, or hidden from it.
      return user == 0
    }
  }
}
