import CFUSE
import Glibc
import LinuxIO
import Synchronization
import SystemPackage

/// What libfuse keeps for each request: the file system that answers it.
final class DispatchTarget: Sendable {
  let fileSystem: any LowLevelFileSystem
  let negotiation: Negotiation
  let counts: RequestCounts
  let writebackQueue = WritebackQueue()
  /// The session, once it is there.
  private let session = Atomic<UInt>(0)

  init(fileSystem: any LowLevelFileSystem, negotiation: Negotiation, counts: RequestCounts) {
    self.fileSystem = fileSystem
    self.negotiation = negotiation
    self.counts = counts
  }

  func began(_ session: OpaquePointer) {
    self.session.store(UInt(bitPattern: session), ordering: .relaxed)
  }

  /// Makes the kernel ask for a directory's attributes again, and pass over answers that are on their way to it: those
  /// may be from before a change that is about to be answered, and the kernel would keep them (`attr_version` in
  /// fs/fuse/inode.c). No pages are waited for, so a handler may do this.
  func outdate(_ directory: NodeID) {
    guard let session = unsafe OpaquePointer(bitPattern: session.load(ordering: .relaxed)) else { return }
    // That the kernel does not know the directory is no error, and there is no other to be told of here.
    _ = unsafe fuse_lowlevel_notify_inval_inode(session, directory.rawValue, -1, 0)
  }
}

/// Serves one request: asks the file system, then answers, exactly once and after every lock is gone. `outdated` are the
/// directories whose number of links has changed then.
func serve(
  _ request: fuse_req_t?, outdated: [NodeID] = [],
  _ handler: (any LowLevelFileSystem) throws(Errno) -> Answer
) {
  let reply = unsafe Reply(request!)
  do throws(Errno) {
    let target = unsafe Unmanaged<DispatchTarget>.fromOpaque(fuse_req_userdata(request)!).takeUnretainedValue()
    let answer = try handler(target.fileSystem)
    for directory in outdated { target.outdate(directory) }
    reply.send(answer)
  } catch {
    reply.send(error)
  }
}

/// Who sent the request.
func caller(_ request: fuse_req_t?) -> Caller {
  let context = unsafe fuse_req_ctx(request)!
  return unsafe Caller(
    user: context.pointee.uid, group: context.pointee.gid, process: context.pointee.pid, umask: context.pointee.umask)
}

/// libfuse's table of operations. What is missing in it answers ENOSYS, and the kernel stops asking: so `flush` costs
/// nothing, and locks are kept by the kernel itself, which is right for a file system with one machine.
func operationTable() -> fuse_lowlevel_ops {
  var table = fuse_lowlevel_ops()
  unsafe table.`init` = { userData, connection in
    let target = unsafe Unmanaged<DispatchTarget>.fromOpaque(userData!).takeUnretainedValue()
    unsafe target.negotiation.negotiate(connection!)
  }
  addNameOperations(to: &table)
  addAttributeOperations(to: &table)
  addFileOperations(to: &table)
  addDirectoryOperations(to: &table)
  return table
}

private func addNameOperations(to table: inout fuse_lowlevel_ops) {
  unsafe table.lookup = { request, parent, name in
    unsafe serve(request) { (fs) throws(Errno) in
      unsafe .entry(try fs.lookup(PathName(copying: name!), in: NodeID(rawValue: parent)))
    }
  }
  unsafe table.forget = { request, node, count in
    let target = unsafe Unmanaged<DispatchTarget>.fromOpaque(fuse_req_userdata(request)!).takeUnretainedValue()
    target.fileSystem.forget(NodeID(rawValue: node), count: count)
    unsafe Reply(request!).none()
  }
  unsafe table.forget_multi = { request, count, list in
    let target = unsafe Unmanaged<DispatchTarget>.fromOpaque(fuse_req_userdata(request)!).takeUnretainedValue()
    for index in 0..<count {
      let item = unsafe list![index]
      target.fileSystem.forget(NodeID(rawValue: item.ino), count: item.nlookup)
    }
    unsafe Reply(request!).none()
  }
  unsafe table.readlink = { request, node in
    unsafe serve(request) { (fs) throws(Errno) in .text(try fs.readSymbolicLink(NodeID(rawValue: node))) }
  }
  unsafe table.mknod = { request, parent, name, mode, device in
    unsafe serve(request) { (fs) throws(Errno) in
      unsafe .entry(
        try fs.makeNode(
          PathName(copying: name!), in: NodeID(rawValue: parent), mode: mode, device: UInt64(device),
          caller: caller(request)))
    }
  }
  unsafe table.mkdir = { request, parent, name, mode in
    unsafe serve(request, outdated: [NodeID(rawValue: parent)]) { (fs) throws(Errno) in
      unsafe .entry(
        try fs.makeDirectory(
          PathName(copying: name!), in: NodeID(rawValue: parent), mode: mode, caller: caller(request)))
    }
  }
  unsafe table.symlink = { request, target, parent, name in
    unsafe serve(request) { (fs) throws(Errno) in
      unsafe .entry(
        try fs.makeSymbolicLink(
          PathName(copying: name!), in: NodeID(rawValue: parent), target: PathName(copying: target!),
          caller: caller(request)))
    }
  }
  unsafe table.link = { request, node, parent, name in
    unsafe serve(request) { (fs) throws(Errno) in
      unsafe .entry(
        try fs.link(NodeID(rawValue: node), as: PathName(copying: name!), in: NodeID(rawValue: parent)))
    }
  }
  unsafe table.unlink = { request, parent, name in
    unsafe serve(request) { (fs) throws(Errno) in
      try unsafe fs.unlink(PathName(copying: name!), in: NodeID(rawValue: parent))
      return .done
    }
  }
  unsafe table.rmdir = { request, parent, name in
    unsafe serve(request, outdated: [NodeID(rawValue: parent)]) { (fs) throws(Errno) in
      try unsafe fs.removeDirectory(PathName(copying: name!), in: NodeID(rawValue: parent))
      return .done
    }
  }
  unsafe table.rename = { request, parent, name, newParent, newName, flags in
    // Within a directory only one that replaces another changes the number, and that is seldom.
    let parents = parent == newParent ? [] : [NodeID(rawValue: parent), NodeID(rawValue: newParent)]
    unsafe serve(request, outdated: parents) { (fs) throws(Errno) in
      try unsafe fs.rename(
        PathName(copying: name!), in: NodeID(rawValue: parent), to: PathName(copying: newName!),
        in: NodeID(rawValue: newParent), flags: RenameFlags(rawValue: flags))
      return .done
    }
  }
}
