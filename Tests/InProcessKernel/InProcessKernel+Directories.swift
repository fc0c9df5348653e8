import CFUSE
import Glibc
import ProtectfsIO
import SystemPackage

// Reading directories.
extension InProcessKernel {
  /// A name in a directory, with what readdir(3) tells of it and what it led to.
  package struct DirectoryItem: Sendable {
    package let name: PathName
    package let inodeNumber: UInt64
    /// As `d_type` has it.
    package let type: UInt32
    /// `nil` for `.` and `..`.
    package let inode: Inode?
  }

  /// Everything in a directory, read with lookups (FUSE_READDIRPLUS) or without, `capacity` bytes at a time.
  package func items(
    of path: PathName, in start: Inode? = nil, lookingUp: Bool = true, capacity: Int = 4096,
    by caller: CallerIdentity = .current
  ) throws(Errno) -> [DirectoryItem] {
    var items: [DirectoryItem] = []
    try list(path, in: start, lookingUp: lookingUp, capacity: capacity, by: caller, into: &items)
    return items
  }

  /// The same; `items` has what was read when it throws.
  package func list(
    _ path: PathName, in start: Inode? = nil, lookingUp: Bool = true, capacity: Int = 4096,
    by caller: CallerIdentity = .current, into items: inout [DirectoryItem]
  ) throws(Errno) {
    let directory = try inode(path, in: start, following: true, by: caller)
    guard directory.isDirectory else { throw .notDirectory }
    let open = try open(directory, O_RDONLY | O_DIRECTORY, by: caller)
    var offset: UInt64 = 0
    while true {
      var arguments = fuse_read_in()
      arguments.fh = open.handle
      arguments.offset = offset
      arguments.size = UInt32(capacity)
      let answer = try device.ask(
        lookingUp ? FUSE_READDIRPLUS : FUSE_READDIR, of: directory.number, Message(arguments), by: caller)
      if answer.isEmpty { return }
      offset = take(answer, lookingUp, in: directory, &items)
    }
  }

  /// The names, `.` and `..` left out, sorted.
  package func names(in path: PathName, in start: Inode? = nil) throws(Errno) -> [PathName] {
    try items(of: path, in: start).map(\.name).filter { $0 != "." && $0 != ".." }
      .sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
  }

  /// Returns where reading goes on.
  private func take(
    _ answer: [UInt8], _ isPlus: Bool, in directory: Inode, _ items: inout [DirectoryItem]
  ) -> UInt64 {
    // `struct fuse_dirent` without the name at its end.
    let header = 24
    var (place, next) = (0, UInt64(0))
    while place < answer.count {
      let entry = answer.value(at: place, as: fuse_entry_out.self)
      let start = place + (isPlus ? MemoryLayout<fuse_entry_out>.size : 0)
      next = answer.value(at: start + 8, as: UInt64.self)
      let length = Int(answer.value(at: start + 16, as: UInt32.self))
      items.append(
        DirectoryItem(
          name: PathName(bytes: answer[(start + header)..<(start + header + length)]),
          inodeNumber: answer.value(at: start, as: UInt64.self), type: answer.value(at: start + 20, as: UInt32.self),
          inode: isPlus && entry.nodeid != 0 ? Inode(entry, in: directory, device) : nil))
      place = start + (header + length + 7) & ~7
    }
    return next
  }

  /// statfs(2).
  package func fileSystemStatus() throws(Errno) -> fuse_kstatfs {
    try ask(FUSE_STATFS, of: root, by: .current, for: fuse_statfs_out.self).st
  }
}
