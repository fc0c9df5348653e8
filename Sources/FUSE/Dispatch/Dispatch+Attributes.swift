import CFUSE
import Glibc
import ProtectfsIO
import SystemPackage

/// Requests for inode attributes and extended attributes.
func addAttributeOperations(to table: inout fuse_lowlevel_ops) {
  unsafe table.getattr = { request, node, info in
    unsafe serveReturningAttributes(request) { (fs) throws(Errno) in
      let (attributes, timeout) = try unsafe fs.attributes(
        of: NodeID(rawValue: node), handle: handle(info), caller: caller(request))
      return unsafe .attributes(attributes, timeout: timeout)
    }
  }
  unsafe table.setattr = { request, node, status, valid, info in
    unsafe serveReturningAttributes(request) { (fs) throws(Errno) in
      let (attributes, timeout) = try unsafe fs.setAttributes(
        of: NodeID(rawValue: node), handle: handle(info), to: changes(status!.pointee, valid: valid),
        caller: caller(request))
      return unsafe .attributes(attributes, timeout: timeout)
    }
  }
  unsafe table.statfs = { request, _ in
    unsafe serve(request) { (fs) throws(Errno) in .status(try fs.fileSystemStatus()) }
  }
  unsafe table.getxattr = { request, node, name, size in
    unsafe serve(request) { (fs) throws(Errno) in
      unsafe .attribute(
        try fs.attribute(PathName(copying: name!), of: NodeID(rawValue: node), caller: caller(request)),
        capacity: size)
    }
  }
  unsafe table.setxattr = { request, node, name, value, size, flags in
    unsafe serve(request) { (fs) throws(Errno) in
      guard let mode = AttributeMode(rawValue: flags) else { throw .invalidArgument }
      // Neither the request nor the copy keeps plaintext that will be encrypted.
      let received = unsafe UnsafeMutableRawBufferPointer(start: UnsafeMutableRawPointer(mutating: value), count: size)
      var copy = unsafe [UInt8](received)
      unsafe Memory.wipe(received)
      defer { unsafe copy.withMutableBytes { unsafe Memory.wipe($0) } }
      try unsafe fs.setAttribute(
        PathName(copying: name!), of: NodeID(rawValue: node), to: copy, mode: mode, caller: caller(request))
      return .done
    }
  }
  unsafe table.listxattr = { request, node, size in
    unsafe serve(request) { (fs) throws(Errno) in
      unsafe .attribute(try fs.attributeNames(of: NodeID(rawValue: node), caller: caller(request)), capacity: size)
    }
  }
  unsafe table.removexattr = { request, node, name in
    unsafe serve(request) { (fs) throws(Errno) in
      try unsafe fs.removeAttribute(PathName(copying: name!), of: NodeID(rawValue: node), caller: caller(request))
      return .done
    }
  }
}

/// The handle that a request came through, if any.
func handle(_ info: UnsafeMutablePointer<fuse_file_info>?) -> Handle? {
  unsafe info.map { unsafe Handle(rawValue: $0.pointee.fh) }
}

private func changes(_ status: stat, valid: Int32) -> AttributeChanges {
  var changes = AttributeChanges()
  if valid & FUSE_SET_ATTR_MODE != 0 { changes.mode = status.st_mode & 0o7777 }
  if valid & FUSE_SET_ATTR_UID != 0 { changes.user = status.st_uid }
  if valid & FUSE_SET_ATTR_GID != 0 { changes.group = status.st_gid }
  if valid & FUSE_SET_ATTR_SIZE != 0 { changes.size = UInt64(status.st_size) }
  changes.access = time(status.st_atim, valid & FUSE_SET_ATTR_ATIME, valid & FUSE_SET_ATTR_ATIME_NOW)
  changes.modification = time(status.st_mtim, valid & FUSE_SET_ATTR_MTIME, valid & FUSE_SET_ATTR_MTIME_NOW)
  // libfuse 3.14 masks this flag out.
  changes.clearsSetID = Worker.arguments(as: fuse_setattr_in.self).valid & UInt32(FATTR_KILL_SUIDGID) != 0
  // The kernel sends its change time with every change of a regular file. That time cannot be set.
  changes.isEmpty = valid & ~FUSE_SET_ATTR_CTIME == 0
  return changes
}

private func time(_ time: timespec, _ isSet: Int32, _ isNow: Int32) -> TimeChange {
  if isNow != 0 { return .now }
  return isSet != 0 ? .set(seconds: Int64(time.tv_sec), nanoseconds: Int64(time.tv_nsec)) : .leave
}
