import CProtectfsIO
import CSystemCalls
import Glibc
import ProtectfsIO

/// The calls on the store, of which the simulated disk of the calling thread answers those that are about it.
enum StoreTable {
  /// Puts them in place, once.
  static let install: Void = {
    let table = UnsafeMutablePointer<store_calls>.allocate(capacity: 1)
    unsafe table.initialize(to: calls)
    unsafe store_replace(table)
  }()

  private typealias Path = UnsafePointer<CChar>?

  /// The answer of the disk; that of `other` if it is not about the disk.
  private static func answer<Result: FixedWidthInteger>(
    _ body: (SimulatedDisk) throws(Failure) -> Result?, else other: () -> Result
  ) -> Result {
    guard let disk = SimulatedDisk.current else { return other() }
    do throws(Failure) {
      if let result = try body(disk) { return result }
    } catch {
      errno = error.number
      return -1
    }
    return other()
  }

  /// The same for a call on a descriptor.
  private static func answer<Result: FixedWidthInteger>(
    _ call: StoreCall, of descriptor: CInt, _ body: (SimulatedDisk, SimulatedDisk.OpenFile) throws(Failure) -> Result,
    else other: () -> Result
  ) -> Result {
    answer(
      { (disk) throws(Failure) in
        guard let file = disk.files[descriptor] else { return nil }
        return try disk.carryOut(call, at: .inode(file.inode)) { () throws(Failure) in try body(disk, file) }
      }, else: other)
  }

  /// The same for a call on what a path leads to.
  private static func answer<Result: FixedWidthInteger>(
    _ call: StoreCall, at path: Path, in directory: CInt = AT_FDCWD,
    _ body: (SimulatedDisk, Location) throws(Failure) -> Result,
    else other: () -> Result
  ) -> Result {
    answer(
      { (disk) throws(Failure) in
        guard let location = try disk.locate(directory, unsafe String(cString: path!)) else { return nil }
        return try disk.carryOut(call, at: location) { () throws(Failure) in try body(disk, location) }
      }, else: other)
  }

  /// The same for one that is there.
  private static func answer<Result: FixedWidthInteger>(
    _ call: StoreCall, about path: Path, in directory: CInt = AT_FDCWD,
    _ body: (SimulatedDisk, Int) throws(Failure) -> Result,
    else other: () -> Result
  ) -> Result {
    unsafe answer(
      call, at: path, in: directory,
      { (disk, location) throws(Failure) in try body(disk, try disk.existing(location)) }, else: other)
  }

  private static func name(_ path: Path) -> PathName { unsafe PathName(copying: path!) }

  private static func bytes(_ value: UnsafeRawPointer?, _ count: Int) -> [UInt8] {
    unsafe Array(UnsafeRawBufferPointer(start: value, count: count))
  }

  private static func status(_ disk: SimulatedDisk, _ number: Int, _ status: OpaquePointer?) -> CInt {
    let inode = disk.image[number]
    var from = calls_status()
    from.inode = UInt64(number)
    from.size = inode.type == .symbolicLink ? UInt64(inode.target.count) : inode.size
    from.blocks = UInt64(inode.pages.count) * 8
    from.mode = inode.mode
    from.links = UInt32(disk.image.links(to: number))
    (from.user, from.group) = (inode.user, inode.group)
    from.modification_seconds = inode.seconds
    from.modification_nanoseconds = Int64(inode.nanoseconds)
    unsafe calls_fill(status, &from, inode.device)
    return 0
  }

  /// In the order of store.h.
  private static let calls = unsafe store_calls(
    openat: { directory, path, flags, mode in
      unsafe answer(
        flags & O_CREAT != 0 ? .create : .openat, at: path, in: directory,
        { (disk, location) throws(Failure) in try disk.open(location, flags, mode: mode) },
        else: { unsafe Glibc.openat(directory, path!, flags, mode) })
    },
    close: { descriptor in
      SimulatedDisk.current?.close(descriptor)
      return Glibc.close(descriptor)
    },
    dup3: { from, to, flags in
      SimulatedDisk.current?.duplicate(from, as: to)
      return CProtectfsIO.dup3(from, to, flags)
    },
    pread: { descriptor, buffer, count, offset in
      answer(
        .pread, of: descriptor,
        { (disk, file) throws(Failure) in
          unsafe try disk.read(file, into: unsafe .init(start: buffer, count: count), at: UInt64(offset))
        }, else: { unsafe Glibc.pread(descriptor, buffer, count, offset) })
    },
    pwrite: { descriptor, buffer, count, offset in
      answer(
        .pwrite, of: descriptor,
        { (disk, file) throws(Failure) in
          unsafe try disk.write(file, unsafe .init(start: buffer, count: count), at: UInt64(offset))
        }, else: { unsafe Glibc.pwrite(descriptor, buffer, count, offset) })
    },
    pwritev2: { descriptor, parts, count, offset, flags in
      answer(
        .pwritev2, of: descriptor,
        { (disk, file) throws(Failure) in
          let part = unsafe parts![0]
          return unsafe try disk.write(
            file, unsafe .init(start: part.iov_base, count: part.iov_len), at: UInt64(offset))
        }, else: { unsafe CProtectfsIO.pwritev2(descriptor, parts, count, offset, flags) })
    },
    sendfile: { to, from, offset, count in
      answer(
        .sendfile, of: to, { (_, _) throws(Failure) in throw Failure(EINVAL) },
        else: { unsafe CProtectfsIO.sendfile(to, from, offset, count) })
    },
    lseek: { descriptor, offset, whence in
      answer(
        .lseek, of: descriptor,
        { (disk, _) throws(Failure) in
          off_t(try disk.seek(descriptor, to: Int64(offset), SeekOrigin(rawValue: whence)))
        }, else: { Glibc.lseek(descriptor, offset, whence) })
    },
    ftruncate: { descriptor, length in
      answer(
        .ftruncate, of: descriptor,
        { (disk, file) throws(Failure) in
          try disk.truncate(file, to: Int64(length))
          return 0
        }, else: { Glibc.ftruncate(descriptor, length) })
    },
    fallocate: { descriptor, mode, offset, length in
      answer(
        .fallocate, of: descriptor,
        { (disk, file) throws(Failure) in
          try disk.allocate(file, .init(rawValue: mode), UInt64(offset)..<UInt64(offset + length))
          return 0
        }, else: { CProtectfsIO.fallocate(descriptor, mode, offset, length) })
    },
    fsync: { descriptor in
      answer(
        .fsync, of: descriptor, { (disk, file) throws(Failure) in disk.synchronize(file) },
        else: { Glibc.fsync(descriptor) })
    },
    fdatasync: { descriptor in
      answer(
        .fdatasync, of: descriptor, { (disk, file) throws(Failure) in disk.synchronize(file, dataOnly: true) },
        else: { Glibc.fdatasync(descriptor) })
    },
    syncfs: { descriptor in
      answer(
        .syncfs, of: descriptor, { (disk, _) throws(Failure) in disk.synchronizeAll() },
        else: { CProtectfsIO.syncfs(descriptor) })
    },
    sync_file_range: { descriptor, offset, length, flags in
      answer(
        .syncFileRange, of: descriptor,
        { (disk, file) throws(Failure) in
          disk.settle(file, UInt64(offset)..<UInt64(offset + length))
          return 0
        },
        else: { CProtectfsIO.sync_file_range(descriptor, offset, length, flags) })
    },
    mkdirat: { directory, path, mode in
      unsafe answer(
        .mkdirat, at: path, in: directory,
        { (disk, location) throws(Failure) in
          try disk.create(.init(mode: InodeType.directory.rawValue | mode & 0o7777), at: location)
          return 0
        }, else: { unsafe Glibc.mkdirat(directory, path!, mode) })
    },
    mknodat: { directory, path, mode, device in
      unsafe answer(
        .mknodat, at: path, in: directory,
        { (disk, location) throws(Failure) in
          try disk.create(.init(mode: mode, device: UInt64(device)), at: location)
          return 0
        }, else: { unsafe Glibc.mknodat(directory, path!, mode, device) })
    },
    symlinkat: { target, directory, path in
      unsafe answer(
        .symlinkat, at: path, in: directory,
        { (disk, location) throws(Failure) in
          let inode = DiskImage.Inode(
            mode: InodeType.symbolicLink.rawValue | 0o777, target: unsafe Array(name(target).bytes))
          try disk.create(inode, at: location)
          return 0
        }, else: { unsafe Glibc.symlinkat(target!, directory, path!) })
    },
    linkat: { directory, from, other, to, flags in
      unsafe answer(
        .linkat, about: from, in: directory,
        { (disk, inode) throws(Failure) in
          guard let location = try disk.locate(other, unsafe String(cString: to!)) else { throw Failure(EXDEV) }
          try disk.link(inode, at: location)
          return 0
        }, else: { unsafe Glibc.linkat(directory, from!, other, to!, flags) })
    },
    unlinkat: { directory, path, flags in
      unsafe answer(
        .unlinkat, at: path, in: directory,
        { (disk, location) throws(Failure) in
          try disk.unlink(location, isDirectory: flags & AT_REMOVEDIR != 0)
          return 0
        }, else: { unsafe Glibc.unlinkat(directory, path!, flags) })
    },
    renameat2: { directory, from, other, to, flags in
      unsafe answer(
        .renameat2, at: from, in: directory,
        { (disk, location) throws(Failure) in
          guard let target = try disk.locate(other, unsafe String(cString: to!)) else { throw Failure(EXDEV) }
          try disk.rename(location, to: target, flags: flags)
          return 0
        }, else: { unsafe CProtectfsIO.renameat2(directory, from, other, to, flags) })
    },
    readlinkat: { directory, path, buffer, count in
      unsafe answer(
        .readlinkat, at: path, in: directory,
        { (disk, location) throws(Failure) in
          unsafe try disk.readLink(location, into: unsafe .init(start: buffer, count: count))
        }, else: { unsafe Glibc.readlinkat(directory, path!, buffer!, count) })
    },
    fchmod: { descriptor, mode in
      answer(
        .fchmod, of: descriptor,
        { (disk, file) throws(Failure) in
          disk.setMode(file.inode, mode)
          return 0
        }, else: { Glibc.fchmod(descriptor, mode) })
    },
    chmod: { path, mode in
      unsafe answer(
        .chmod, about: path,
        { (disk, inode) throws(Failure) in
          disk.setMode(inode, mode)
          return 0
        }, else: { unsafe Glibc.chmod(path!, mode) })
    },
    fchownat: { directory, path, user, group, flags in
      unsafe answer(
        .fchownat, about: path, in: directory,
        { (disk, inode) throws(Failure) in
          disk.setOwner(inode, user, group)
          return 0
        }, else: { unsafe Glibc.fchownat(directory, path!, user, group, flags) })
    },
    utimensat: { directory, path, times, flags in
      unsafe answer(
        .utimensat, about: path, in: directory,
        { (disk, inode) throws(Failure) in
          disk.setTimes(inode, modification: unsafe times![1])
          return 0
        }, else: { unsafe Glibc.utimensat(directory, path!, times!, flags) })
    },
    fstatfs: { descriptor, status in
      answer(
        .fstatfs, of: descriptor,
        { (disk, _) throws(Failure) in
          // XFS, or ext2 (statfs(2)).
          unsafe status!.pointee.f_type = disk.keepsOrder ? 0x5846_5342 : 0xef53
          return 0
        }, else: { unsafe CProtectfsIO.fstatfs(descriptor, status!) })
    },
    fstatvfs: { descriptor, status in unsafe Glibc.fstatvfs(descriptor, status!) },
    fsetxattr: { descriptor, attribute, value, count, flags in
      answer(
        .fsetxattr, of: descriptor,
        { (disk, file) throws(Failure) in
          unsafe try disk.setAttribute(
            file.inode, name(attribute), bytes(value, count), AttributeMode(rawValue: flags))
          return 0
        }, else: { unsafe CProtectfsIO.fsetxattr(descriptor, attribute, value, count, flags) })
    },
    setxattr: { path, attribute, value, count, flags in
      unsafe answer(
        .setxattr, about: path,
        { (disk, inode) throws(Failure) in
          unsafe try disk.setAttribute(inode, name(attribute), bytes(value, count), AttributeMode(rawValue: flags))
          return 0
        }, else: { unsafe CProtectfsIO.setxattr(path, attribute, value, count, flags) })
    },
    fremovexattr: { descriptor, attribute in
      answer(
        .fremovexattr, of: descriptor,
        { (disk, file) throws(Failure) in
          try disk.removeAttribute(file.inode, unsafe name(attribute))
          return 0
        }, else: { unsafe CProtectfsIO.fremovexattr(descriptor, attribute) })
    },
    removexattr: { path, attribute in
      unsafe answer(
        .removexattr, about: path,
        { (disk, inode) throws(Failure) in
          try disk.removeAttribute(inode, unsafe name(attribute))
          return 0
        }, else: { unsafe CProtectfsIO.removexattr(path, attribute) })
    },
    lremovexattr: { path, attribute in unsafe CProtectfsIO.lremovexattr(path, attribute) },
    fgetxattr: { descriptor, attribute, value, count in
      answer(
        .fgetxattr, of: descriptor,
        { (disk, file) throws(Failure) in
          unsafe try disk.attribute(file.inode, unsafe name(attribute), into: unsafe .init(start: value, count: count))
        }, else: { unsafe CProtectfsIO.fgetxattr(descriptor, attribute, value, count) })
    },
    getxattr: { path, attribute, value, count in
      unsafe answer(
        .getxattr, about: path,
        { (disk, inode) throws(Failure) in
          unsafe try disk.attribute(inode, unsafe name(attribute), into: unsafe .init(start: value, count: count))
        }, else: { unsafe CProtectfsIO.getxattr(path, attribute, value, count) })
    },
    lgetxattr: { path, attribute, value, count in
      unsafe answer(
        .lgetxattr, about: path,
        { (disk, inode) throws(Failure) in
          unsafe try disk.attribute(inode, unsafe name(attribute), into: unsafe .init(start: value, count: count))
        }, else: { unsafe CProtectfsIO.lgetxattr(path, attribute, value, count) })
    },
    flistxattr: { descriptor, list, count in
      answer(
        .flistxattr, of: descriptor,
        { (disk, file) throws(Failure) in
          unsafe try disk.attributeNames(file.inode, into: unsafe .init(start: list, count: count))
        }, else: { unsafe CProtectfsIO.flistxattr(descriptor, list, count) })
    },
    listxattr: { path, list, count in
      unsafe answer(
        .listxattr, about: path,
        { (disk, inode) throws(Failure) in
          unsafe try disk.attributeNames(inode, into: unsafe .init(start: list, count: count))
        }, else: { unsafe CProtectfsIO.listxattr(path, list, count) })
    },
    statx: { directory, path, flags, mask, status in
      unsafe answer(
        .statx, about: path, in: directory,
        { (disk, inode) throws(Failure) in unsafe Self.status(disk, inode, status) },
        else: { unsafe calls_statx(directory, path, flags, mask, status) })
    },
    getdents64: { descriptor, buffer, count in
      answer(
        .getdents64, of: descriptor,
        { (disk, _) throws(Failure) in unsafe disk.entries(descriptor, into: unsafe .init(start: buffer, count: count))
        },
        else: { unsafe calls_getdents64(descriptor, buffer, count) })
    })
}
