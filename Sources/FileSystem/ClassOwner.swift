import BackingTree
import FUSE
import ProtectfsIO
import SystemPackage

// A class restricts who can read the contents, as a mode does. Therefore the same callers may change it as may change a
// mode: the file's owner and processes with CAP_FOWNER (chmod(2), capabilities(7)). The kernel has checked write
// permission only, which is enough to set any `user.` attribute.
extension ProtectedFileSystem {
  /// - Throws: `EPERM` if `caller` may not change the class of a node.
  func requireOwner(of node: Node, _ caller: Caller) throws(Errno) {
    try requireOwner(of: tree.status(of: node), caller)
  }

  /// - Throws: `EPERM` if `caller` may not change the class of the file or directory with that status.
  func requireOwner(of status: Status, _ caller: Caller) throws(Errno) {
    guard caller.isOwner(status.user) else { throw .notPermitted }
  }
}

extension Caller {
  /// Whether the caller is each of these owners of files, or may act as such.
  func isOwner(_ users: UInt32...) -> Bool { users.allSatisfy { user == $0 || mayAct(as: $0) } }

  /// Whether the caller has CAP_FOWNER over files of `owner` in its user namespace, in which `owner` must be mapped
  /// (`inode_owner_or_capable` in fs/inode.c). Any user may create a namespace and be root in it; that gives no rights
  /// over files of users outside it.
  fileprivate func mayAct(as owner: UInt32) -> Bool {
    do throws(Errno) {
      // If the credentials of the call are not those of the process, neither are the capabilities.
      guard let own = try Process.capabilities(of: process, as: user) else { return user == 0 }
      guard own.contains(.actAsOwner) else { return false }
      return try Process.knows(user: owner, process)
    } catch {
      // The daemon cannot see the process: it is in another PID namespace, or hidden.
      return user == 0
    }
  }
}
