import CFUSE
import Glibc
import ProtectfsIO
import SystemPackage

/// Requests on open files.
func addFileOperations(to table: inout fuse_lowlevel_ops, flushesOnClose: Bool) {
  unsafe table.create = { request, parent, name, mode, info in
    unsafe serveChange(request, of: parent) { (fs) throws(Errno) in
      let (entry, opened) = try unsafe fs.create(
        PathName(copying: name!), in: NodeID(rawValue: parent), mode: mode,
        flags: HandleFlags(rawValue: info!.pointee.flags), caller: caller(request))
      return unsafe .created(entry, opened)
    }
  }
  unsafe table.open = { request, node, info in
    let kernelFlags = Worker.arguments(as: fuse_open_in.self).open_flags
    let flags = unsafe HandleFlags(
      rawValue: info!.pointee.flags, clearsSetID: kernelFlags & UInt32(FUSE_OPEN_KILL_SUIDGID) != 0)
    let fileSystem = unsafe target(of: request).fileSystem
    var opened: Opened?
    let isSent = unsafe serve(request) { (fs) throws(Errno) in
      let result = try unsafe fs.open(NodeID(rawValue: node), flags: flags, caller: caller(request))
      opened = result
      return .opened(result)
    }
    // The kernel does not release a handle that it did not receive.
    if !isSent, let opened { fileSystem.release(opened.handle, of: NodeID(rawValue: node), flags: flags) }
  }
  unsafe table.read = { request, node, size, offset, info in
    unsafe serve(request) { (fs) throws(Errno) in
      let count = min(size, Session.maximumTransfer)
      let buffer = unsafe Session.room(for: count, in: Worker.current.data)
      do throws(Errno) {
        let bytes = try unsafe fs.read(
          Handle(rawValue: info!.pointee.fh), of: NodeID(rawValue: node), at: UInt64(offset), count: count,
          into: buffer, flags: HandleFlags(rawValue: info!.pointee.flags), caller: caller(request))
        return unsafe .data(bytes, wipe: true)
      } catch {
        // What was decrypted before the failure goes, too.
        unsafe Memory.wipe(buffer)
        throw error
      }
    }
  }
  unsafe table.write = { request, node, buffer, size, offset, info in
    unsafe serve(request) { (fs) throws(Errno) in
      // The data is in this worker's own request buffer, so it can be encrypted in place.
      let bytes = unsafe UnsafeMutableRawBufferPointer(start: UnsafeMutableRawPointer(mutating: buffer!), count: size)
      return unsafe .written(
        try fs.write(
          Handle(rawValue: info!.pointee.fh), of: NodeID(rawValue: node), at: UInt64(offset), bytes: bytes,
          flags: WriteFlags(rawValue: Worker.arguments(as: fuse_write_in.self).write_flags), caller: caller(request)))
    }
  }
  unsafe table.release = { request, node, info in
    unsafe serve(request, mayFail: false) { (fs) throws(Errno) in
      unsafe fs.release(
        Handle(rawValue: info!.pointee.fh), of: NodeID(rawValue: node),
        flags: HandleFlags(rawValue: info!.pointee.flags))
      return .done
    }
  }
  if flushesOnClose {
    unsafe table.flush = { request, _, info in
      let handle = unsafe Handle(rawValue: info!.pointee.fh)
      guard unsafe target(of: request).fileSystem.mustFlush(handle) else {
        unsafe Reply(request!).send(Answer.done)
        return
      }
      unsafe serve(request) { (fs) throws(Errno) in
        try fs.flush(handle)
        return .done
      }
    }
  }
  unsafe table.fsync = { request, _, dataOnly, info in
    unsafe serve(request) { (fs) throws(Errno) in
      try unsafe fs.synchronize(Handle(rawValue: info!.pointee.fh), dataOnly: dataOnly != 0)
      return .done
    }
  }
  unsafe table.fallocate = { request, node, mode, offset, length, info in
    unsafe serve(request) { (fs) throws(Errno) in
      try unsafe fs.allocate(
        Handle(rawValue: info!.pointee.fh), of: NodeID(rawValue: node), mode: AllocationMode(rawValue: mode),
        offset: UInt64(offset),
        length: UInt64(length), caller: caller(request))
      return .done
    }
  }
  unsafe table.lseek = { request, node, offset, whence, info in
    let target = unsafe target(of: request)
    guard let origin = SeekOrigin(rawValue: whence), origin != .start, offset >= 0 else {
      return unsafe Reply(request!).send(offset < 0 ? .noSuchAddressOrDevice : .invalidArgument)
    }
    let seek = unsafe WritebackQueue.Seek(
      request: request!, node: NodeID(rawValue: node), handle: Handle(rawValue: info!.pointee.fh),
      offset: UInt64(offset), origin: origin)
    if target.fileSystem.mayHaveDirtyPages(seek.node) { return target.writebackQueue.add(seek) }
    unsafe serve(request) { (fs) throws(Errno) in
      .offset(try fs.seek(seek.handle, to: seek.offset, seek.origin))
    }
  }
  unsafe table.copy_file_range = {
    request, sourceNode, sourceOffset, source, node, targetOffset, target, count, flags in
    unsafe serve(request) { (fs) throws(Errno) in
      guard flags == 0 else { throw .invalidArgument }
      return unsafe .written(
        try fs.copyRange(
          from: Handle(rawValue: source!.pointee.fh), of: NodeID(rawValue: sourceNode), at: UInt64(sourceOffset),
          to: Handle(rawValue: target!.pointee.fh), of: NodeID(rawValue: node), at: UInt64(targetOffset),
          count: min(count, longestCopy), buffer: Worker.current.data, caller: caller(request)))
    }
  }
}

/// How many bytes one request copies at most. The answer has 32 bits for their number, and older kernels ask for more.
private let longestCopy = 1 << 30

/// Requests on open directories.
func addDirectoryOperations(to table: inout fuse_lowlevel_ops) {
  unsafe table.opendir = { request, node, info in
    unsafe serve(request) { (fs) throws(Errno) in
      unsafe .opened(
        try fs.openDirectory(NodeID(rawValue: node), flags: HandleFlags(rawValue: info!.pointee.flags)))
    }
  }
  unsafe table.readdir = { request, _, size, offset, info in
    unsafe list(request, size: size, offset: offset, info: info, isPlus: false)
  }
  unsafe table.readdirplus = { request, _, size, offset, info in
    unsafe list(request, size: size, offset: offset, info: info, isPlus: true)
  }
  unsafe table.releasedir = { request, _, info in
    unsafe serve(request, mayFail: false) { (fs) throws(Errno) in
      unsafe fs.releaseDirectory(Handle(rawValue: info!.pointee.fh))
      return .done
    }
  }
  unsafe table.fsyncdir = { request, _, _, info in
    unsafe serve(request) { (fs) throws(Errno) in
      try unsafe fs.synchronizeDirectory(Handle(rawValue: info!.pointee.fh))
      return .done
    }
  }
}

private func list(
  _ request: fuse_req_t?, size: Int, offset: off_t, info: UnsafeMutablePointer<fuse_file_info>?, isPlus: Bool
) {
  var readAhead: ReadAhead?
  unsafe serveReturningAttributes(request) { (fs) throws(Errno) in
    let buffer = unsafe UnsafeMutableRawBufferPointer(
      rebasing: Worker.current.data[..<min(size, Session.maximumTransfer)])
    var listing = unsafe DirectoryListing(request!, buffer: buffer, isPlus: isPlus)
    readAhead = try unsafe fs.readDirectory(
      Handle(rawValue: info!.pointee.fh), from: UInt64(bitPattern: Int64(offset)), into: &listing)
    return unsafe .data(listing.bytes, wipe: false)
  }
  if let readAhead { Worker.current.continueAfterAnswer(readAhead) }
}
