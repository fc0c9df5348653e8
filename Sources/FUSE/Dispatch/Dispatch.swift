import CFUSE
import Glibc
import ProtectfsIO
import Synchronization
import SystemPackage

/// What libfuse passes to each request: the file system that answers it, and its surroundings.
@safe final class DispatchTarget: @unchecked Sendable {
  let fileSystem: any LowLevelFileSystem
  let negotiation: Negotiation
  let counts: RequestCounts
  let writebackQueue = WritebackQueue()
  let marks = QueueMarks()
  /// Whether the reserve is taking a request.
  let reserveRequest = ServedRequest()
  /// The number of requests being served, until their answers are sent, whose answers may contain attributes of
  /// directories.
  let attributeReplies = Atomic<Int>(0)
  let readAheadQueue = ReadAheadQueue()
  /// The rings that requests may come through. Set before the first request.
  var rings: RequestRings?

  init(fileSystem: any LowLevelFileSystem, negotiation: Negotiation, counts: RequestCounts) {
    self.fileSystem = fileSystem
    self.negotiation = negotiation
    self.counts = counts
  }

  /// Invalidates the kernel's attributes of a directory that was changed, before the change is answered. Answers on
  /// their way to the kernel may contain the attributes from before the change, and the kernel would keep those.
  func invalidateAttributes(_ directory: NodeID) {
    guard attributeReplies.load(ordering: .sequentiallyConsistent) > 0 else { return }
    fileSystem.kernelAttributes.invalidate(directory)
  }
}

/// Serves one request: calls the file system, then answers exactly once, with no lock held. Returns `false` if another
/// thread has answered meanwhile, so that this answer was not sent.
///
/// - Parameter mayFail: if `false`, the handler is called whatever is known of the store.
@discardableResult
func serve(
  _ request: fuse_req_t?, mayFail: Bool = true, _ handler: (any LowLevelFileSystem) throws(Errno) -> Answer
) -> Bool {
  let reply = unsafe Reply(request!)
  let fileSystem = unsafe target(of: request).fileSystem
  do throws(Errno) {
    if fileSystem.mustWaitForStore {
      // What a lock refuses needs no store.
      if Worker.ofThread?.isRefused ?? false { throw Errno.permissionDenied }
      do throws(Errno) { try fileSystem.waitForStore() } catch { if mayFail { throw error } }
    }
    let answer: Answer
    do throws(Errno) {
      answer = try handler(fileSystem)
    } catch {
      guard error.isOutOfSpace, Worker.ofThread?.mayRepeat ?? false,
        fileSystem.forgets.wait()
      else { throw error }
      answer = try handler(fileSystem)
    }
    return reply.send(answer)
  } catch {
    // Of a server behind the backing directory that is gone, the kernel says what it says of a daemon.
    reply.send(error.isOfAGoneDaemon ? .ioError : error)
    return true
  }
}

/// Serves a request whose answer may contain attributes of directories.
func serveReturningAttributes(
  _ request: fuse_req_t?, _ handler: (any LowLevelFileSystem) throws(Errno) -> Answer
) {
  let target = unsafe target(of: request)
  target.attributeReplies.wrappingAdd(1, ordering: .sequentiallyConsistent)
  unsafe serve(request, handler)
  target.attributeReplies.wrappingSubtract(1, ordering: .sequentiallyConsistent)
}

/// Serves a request that changes one or two directories.
func serveChange(
  _ request: fuse_req_t?, of parent: fuse_ino_t, _ other: fuse_ino_t? = nil,
  _ handler: (any LowLevelFileSystem) throws(Errno) -> Answer
) {
  unsafe serve(request) { (fs) throws(Errno) in
    let answer = try handler(fs)
    let target = unsafe target(of: request)
    target.invalidateAttributes(NodeID(rawValue: parent))
    if let other, other != parent { target.invalidateAttributes(NodeID(rawValue: other)) }
    return answer
  }
}

func target(of request: fuse_req_t?) -> DispatchTarget {
  unsafe Unmanaged<DispatchTarget>.fromOpaque(fuse_req_userdata(request)!).takeUnretainedValue()
}

/// The caller that sent the request.
func caller(_ request: fuse_req_t?) -> Caller {
  let context = unsafe fuse_req_ctx(request)!
  return unsafe Caller(
    user: context.pointee.uid, group: context.pointee.gid, process: context.pointee.pid, umask: context.pointee.umask)
}

/// libfuse's table of operations. An operation that is missing is answered with ENOSYS, and the kernel stops requesting
/// it. So `flush` costs nothing where nobody needs it, and the kernel itself keeps locks, which is right for a file
/// system used by one machine.
func operationTable(flushesOnClose: Bool) -> fuse_lowlevel_ops {
  var table = fuse_lowlevel_ops()
  unsafe table.`init` = { userData, connection in
    let target = unsafe Unmanaged<DispatchTarget>.fromOpaque(userData!).takeUnretainedValue()
    unsafe target.negotiation.negotiate(connection!)
  }
  addNameOperations(to: &table)
  addAttributeOperations(to: &table)
  addFileOperations(to: &table, flushesOnClose: flushesOnClose)
  addDirectoryOperations(to: &table)
  return table
}

private func addNameOperations(to table: inout fuse_lowlevel_ops) {
  unsafe table.lookup = { request, parent, name in
    unsafe serveReturningAttributes(request) { (fs) throws(Errno) in
      unsafe .entry(try fs.lookup(PathName(copying: name!), in: NodeID(rawValue: parent)))
    }
  }
  unsafe table.forget = { request, node, count in
    let target = unsafe target(of: request)
    target.fileSystem.forget(NodeID(rawValue: node), count: count)
    unsafe Reply(request!).none()
  }
  unsafe table.forget_multi = { request, count, list in
    let target = unsafe target(of: request)
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
    unsafe serveChange(request, of: parent) { (fs) throws(Errno) in
      unsafe .entry(
        try fs.makeNode(
          PathName(copying: name!), in: NodeID(rawValue: parent), mode: mode, device: UInt64(device),
          caller: caller(request)))
    }
  }
  unsafe table.mkdir = { request, parent, name, mode in
    unsafe serveChange(request, of: parent) { (fs) throws(Errno) in
      unsafe .entry(
        try fs.makeDirectory(
          PathName(copying: name!), in: NodeID(rawValue: parent), mode: mode, caller: caller(request)))
    }
  }
  unsafe table.symlink = { request, target, parent, name in
    unsafe serveChange(request, of: parent) { (fs) throws(Errno) in
      unsafe .entry(
        try fs.makeSymbolicLink(
          PathName(copying: name!), in: NodeID(rawValue: parent), target: PathName(copying: target!),
          caller: caller(request)))
    }
  }
  unsafe table.link = { request, node, parent, name in
    unsafe serveChange(request, of: parent) { (fs) throws(Errno) in
      unsafe .entry(
        try fs.link(NodeID(rawValue: node), as: PathName(copying: name!), in: NodeID(rawValue: parent)))
    }
  }
  unsafe table.unlink = { request, parent, name in
    unsafe serveChange(request, of: parent) { (fs) throws(Errno) in
      try unsafe fs.unlink(PathName(copying: name!), in: NodeID(rawValue: parent), caller: caller(request))
      return .done
    }
  }
  unsafe table.rmdir = { request, parent, name in
    unsafe serveChange(request, of: parent) { (fs) throws(Errno) in
      try unsafe fs.removeDirectory(PathName(copying: name!), in: NodeID(rawValue: parent))
      return .done
    }
  }
  unsafe table.rename = { request, parent, name, newParent, newName, flags in
    unsafe serveChange(request, of: parent, newParent) { (fs) throws(Errno) in
      try unsafe fs.rename(
        PathName(copying: name!), in: NodeID(rawValue: parent), to: PathName(copying: newName!),
        in: NodeID(rawValue: newParent), flags: RenameFlags(rawValue: flags), caller: caller(request))
      return .done
    }
  }
}
