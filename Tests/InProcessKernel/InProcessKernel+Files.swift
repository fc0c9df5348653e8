import CFUSE
import Glibc
import ProtectfsIO
import SystemPackage

// Opening, and what is done with what is open.
extension InProcessKernel {
  /// open(2), of files and directories.
  package func open(
    _ path: PathName, in start: Inode? = nil, _ flags: CInt, mode: UInt32 = 0o644, by caller: CallerIdentity = .current
  ) throws(Errno) -> OpenInode {
    let follows = flags & O_NOFOLLOW == 0 && flags & (O_CREAT | O_EXCL) != O_CREAT | O_EXCL
    if flags & O_CREAT == 0 {
      return try open(inode(path, in: start, following: follows, by: caller), flags, by: caller)
    }
    guard path.bytes.last != UInt8(ascii: "/") else { throw .isDirectory }
    let there = try found { () throws(Errno) in try self.inode(path, in: start, following: follows, by: caller) }
    if let there {
      if flags & O_EXCL != 0 { throw .fileExists }
      if there.isDirectory { throw .isDirectory }
      return try open(there, flags, by: caller)
    }
    let (directory, name) = try place(of: path, in: start, by: caller)
    var arguments = fuse_create_in()
    arguments.flags = UInt32(bitPattern: flags & ~O_NOCTTY)
    arguments.mode = FileType.regular | mode & 0o7777
    arguments.umask = caller.umask
    var message = Message(arguments)
    message.append(name)
    let answer = try device.ask(FUSE_CREATE, of: directory.number, message, by: caller)
    let inode = Inode(answer.value(as: fuse_entry_out.self), in: directory, device)
    let opened = answer.value(at: MemoryLayout<fuse_entry_out>.size, as: fuse_open_out.self)
    return OpenInode(inode, handle: opened.fh, flags: flags, by: caller, self)
  }

  /// Opens what was looked up.
  package func open(_ inode: Inode, _ flags: CInt, by caller: CallerIdentity = .current) throws(Errno) -> OpenInode {
    if inode.isSymbolicLink { throw .tooManySymbolicLinkLevels }
    if inode.isDirectory {
      guard flags & (O_ACCMODE | O_TRUNC) == O_RDONLY else { throw .isDirectory }
    } else {
      guard flags & O_DIRECTORY == 0 else { throw .notDirectory }
      // What is no file of the daemon's, it is never asked to open.
      guard inode.type == FileType.regular else { throw .noSuchAddressOrDevice }
    }
    var arguments = fuse_open_in()
    arguments.flags = UInt32(bitPattern: flags & ~(O_CREAT | O_EXCL | O_NOCTTY))
    if flags & O_TRUNC != 0, caller.user != 0 { arguments.open_flags = UInt32(FUSE_OPEN_KILL_SUIDGID) }
    let operation = inode.isDirectory ? FUSE_OPENDIR : FUSE_OPEN
    let opened = try ask(operation, of: inode, Message(arguments), by: caller, for: fuse_open_out.self)
    let file = OpenInode(inode, handle: opened.fh, flags: flags, by: caller, self)
    if flags & O_TRUNC != 0 { try file.touch() }
    return file
  }

  /// The text of a symbolic link.
  package func target(of link: Inode, by caller: CallerIdentity = .current) throws(Errno) -> PathName {
    guard link.isSymbolicLink else { throw .invalidArgument }
    return PathName(bytes: try device.ask(FUSE_READLINK, of: link.number, by: caller))
  }
}

extension OpenInode {
  package func read(at offset: Int64, count: Int) throws(Errno) -> [UInt8] {
    try requireFile(reading: true)
    guard offset >= 0 else { throw .invalidArgument }
    var bytes: [UInt8] = []
    while bytes.count < count {
      var arguments = fuse_read_in()
      arguments.fh = handle
      arguments.offset = UInt64(offset) + UInt64(bytes.count)
      arguments.size = UInt32(min(count - bytes.count, DeviceSocket.maximumTransfer))
      arguments.flags = UInt32(bitPattern: flags)
      let part = try kernel.device.ask(FUSE_READ, of: inode.number, Message(arguments), by: caller)
      bytes += part
      if part.count < arguments.size { break }
    }
    return bytes
  }

  /// write(2) past the cache, or, with `isWriteBack`, the kernel's own write of cached pages.
  @discardableResult
  package func write(_ bytes: [UInt8], at offset: Int64, isWriteBack: Bool = false) throws(Errno) -> Int {
    try requireFile(writing: true)
    guard offset >= 0, offset.addingReportingOverflow(Int64(bytes.count)).overflow == false else {
      throw .invalidArgument
    }
    let place = flags & O_APPEND != 0 ? Int64(try size()) : offset
    var done = 0
    while done < bytes.count {
      let part = Array(bytes[done..<min(done + DeviceSocket.maximumTransfer, bytes.count)])
      var arguments = fuse_write_in()
      arguments.fh = handle
      arguments.offset = UInt64(place) + UInt64(done)
      arguments.size = UInt32(part.count)
      arguments.write_flags = caller.user == 0 ? 0 : UInt32(FUSE_WRITE_KILL_SUIDGID)
      if isWriteBack { arguments.write_flags = UInt32(FUSE_WRITE_CACHE) }
      arguments.flags = UInt32(bitPattern: flags)
      var message = Message(arguments)
      message.append(bytes: part)
      let written = try kernel.ask(FUSE_WRITE, of: inode, message, by: caller, for: fuse_write_out.self).size
      done += Int(written)
      if written < part.count { break }
    }
    if done > 0 { try touch() }
    return done
  }

  /// As the kernel asks before it writes to its cache: through the handle.
  package func status() throws(Errno) -> fuse_attr { try kernel.status(of: inode, by: caller) }

  private func size() throws(Errno) -> UInt64 {
    var arguments = fuse_getattr_in()
    arguments.getattr_flags = UInt32(FUSE_GETATTR_FH)
    arguments.fh = handle
    return try kernel.ask(FUSE_GETATTR, of: inode, Message(arguments), by: caller, for: fuse_attr_out.self).attr.size
  }

  package func truncate(to length: Int64) throws(Errno) {
    guard length >= 0 else { throw .invalidArgument }
    guard inode.type == FileType.regular, isWritable else { throw .invalidArgument }
    try kernel.setLength(of: inode, handle, to: length, by: caller)
  }

  package func allocate(_ mode: AllocationMode, at offset: Int64, count: Int64) throws(Errno) {
    guard offset >= 0, count > 0 else { throw .invalidArgument }
    guard !offset.addingReportingOverflow(count).overflow else { throw .fileTooLarge }
    try requireFile(writing: true)
    let arguments = fuse_fallocate_in(
      fh: handle, offset: UInt64(offset), length: UInt64(count), mode: UInt32(bitPattern: mode.rawValue), padding: 0)
    _ = try kernel.device.ask(FUSE_FALLOCATE, of: inode.number, Message(arguments), by: caller)
    try touch()
  }

  package func synchronize(dataOnly: Bool = false) throws(Errno) {
    let arguments = fuse_fsync_in(fh: handle, fsync_flags: dataOnly ? 1 : 0, padding: 0)
    _ = try kernel.device.ask(
      inode.isDirectory ? FUSE_FSYNCDIR : FUSE_FSYNC, of: inode.number, Message(arguments), by: caller)
  }

  /// `SEEK_DATA` and `SEEK_HOLE` (lseek(2)).
  package func seek(to offset: Int64, _ origin: SeekOrigin) throws(Errno) -> Int64 {
    let arguments = fuse_lseek_in(
      fh: handle, offset: UInt64(bitPattern: offset), whence: UInt32(origin.rawValue), padding: 0)
    return Int64(try kernel.ask(FUSE_LSEEK, of: inode, Message(arguments), by: caller, for: fuse_lseek_out.self).offset)
  }

  package func copyRange(
    from offset: Int64, to target: OpenInode, at targetOffset: Int64, count: Int64
  ) throws(Errno) -> Int {
    try requireFile(reading: true)
    try target.requireFile(writing: true)
    guard target.flags & O_APPEND == 0 else { throw .badFileDescriptor }
    if inode.number == target.inode.number, offset < targetOffset + count, targetOffset < offset + count {
      throw .invalidArgument
    }
    let count = min(count, max(0, Int64(try status().size) - offset))
    if count == 0 { return 0 }
    let arguments = fuse_copy_file_range_in(
      fh_in: handle, off_in: UInt64(offset), nodeid_out: target.inode.number, fh_out: target.handle,
      off_out: UInt64(targetOffset), len: UInt64(count), flags: 0)
    let done = try kernel.ask(FUSE_COPY_FILE_RANGE, of: inode, Message(arguments), by: caller, for: fuse_write_out.self)
      .size
    if done > 0 { try target.touch() }
    return Int(done)
  }

  package func setMode(_ mode: UInt32) throws(Errno) {
    try kernel.set(inode, by: caller) {
      $0.valid = UInt32(FATTR_MODE)
      $0.mode = mode & 0o7777
    }
  }

  package func setOwner(user: Int64, group: Int64) throws(Errno) {
    try kernel.set(inode, by: caller) { $0.setOwner(user: user, group: group) }
  }

  package func setTimes(access: InodeTime, modification: InodeTime) throws(Errno) {
    try kernel.setTimes(of: inode, handle, access: access, modification: modification, by: caller)
  }

  /// With the write-back cache the kernel keeps the modification time, and tells it.
  func touch() throws(Errno) {
    try kernel.setTimes(of: inode, handle, access: .omit, modification: .now, by: caller)
  }

  private var isWritable: Bool { flags & O_ACCMODE != O_RDONLY }

  private func requireFile(reading: Bool = false, writing: Bool = false) throws(Errno) {
    if reading, flags & O_ACCMODE == O_WRONLY { throw .badFileDescriptor }
    if writing, !isWritable { throw .badFileDescriptor }
    if inode.isDirectory { throw .isDirectory }
  }
}
