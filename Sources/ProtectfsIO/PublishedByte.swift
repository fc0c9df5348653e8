import ProtectfsLibc
import SystemPackage

/// The first byte of a file, which other processes read, and this one changes in its memory: without a system call, and
/// with nothing that it might not get then.
///
/// The file is locked as long as this exists (``Descriptor/lockBytes(isShared:)``), so that nobody believes the byte of
/// a process that was killed.
@safe package final class PublishedByte: @unchecked Sendable {
  private static let pageSize = 4096

  private let file: Descriptor
  private let page: UnsafeMutableRawPointer

  /// Gives a file with this content the name, in place of what has it.
  ///
  /// - Throws: `ENOTSUP` where the directory is not on a tmpfs: a change of a page of another file system may wait for
  ///   it; `ENOMEM` or `EPERM` where no memory can be locked.
  package init(_ content: [UInt8], named name: PathName, in directory: borrowing Descriptor) throws(Errno) {
    guard try directory.fileSystemKind() == .tmpfs else { throw .notSupported }
    let aside = PathName(bytes: Array(name.bytes) + Array(".new".utf8))
    try? directory.unlink(aside)
    // Nobody may cut the file by accident: the page would be gone, and the process with it.
    file = try directory.open(aside, [.readWrite, .create, .exclusive, .noFollow], mode: 0o400)
    do throws(Errno) {
      try file.lockBytes(isShared: false)
      try file.write(content)
      unsafe page = try Self.map(file)
      try directory.rename(aside, to: name, in: directory)
    } catch {
      try? directory.unlink(aside)
      throw error
    }
  }

  deinit {
    unsafe munmap(page, Self.pageSize)
  }

  /// Changes the byte. Calls must not overlap.
  package func set(_ byte: UInt8) {
    unsafe page.storeBytes(of: byte, as: UInt8.self)
  }

  /// The file's inode number.
  package var inode: UInt64? { try? file.status().inode }

  private static func map(_ file: borrowing Descriptor) throws(Errno) -> UnsafeMutableRawPointer {
    let page = unsafe mmap(nil, pageSize, PROT_READ | PROT_WRITE, MAP_SHARED, file.rawValue, 0)
    guard let page = unsafe page, unsafe page != MAP_FAILED else { throw Errno(rawValue: errno) }
    guard unsafe mlock(page, pageSize) == 0 else {
      let error = Errno(rawValue: errno)
      unsafe munmap(page, pageSize)
      throw error
    }
    return unsafe page
  }
}
