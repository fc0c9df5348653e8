import CFUSE
import Glibc
import ProtectfsIO
import SystemPackage

// From paths to inodes (path_resolution(7)).
extension InProcessKernel {
  private static let mostLinks = 40
  private static let longestPath = 4096
  private static let longestName = 255

  /// Looks a name up.
  func lookup(_ name: PathName, in directory: Inode, by caller: CallerIdentity) throws(Errno) -> Inode {
    let entry = try ask(FUSE_LOOKUP, of: directory, Message(name), by: caller, for: fuse_entry_out.self)
    // Node 0 is an answer for a name that is not there.
    guard entry.nodeid != 0 else { throw .noSuchFileOrDirectory }
    return Inode(entry, in: directory, device)
  }

  /// What a path leads to, from a directory on.
  package func inode(
    _ path: PathName, in start: Inode? = nil, following: Bool = false, by caller: CallerIdentity = .current
  ) throws(Errno) -> Inode {
    var walk = Walk(kernel: self, at: start ?? root, caller: caller)
    return try walk.take(path, following: following)
  }

  /// The directory that a path's last name is in, and the name.
  func place(of path: PathName, in start: Inode? = nil, by caller: CallerIdentity) throws(Errno) -> (Inode, PathName) {
    guard !path.bytes.isEmpty else { throw .noSuchFileOrDirectory }
    guard path.terminated.count <= Self.longestPath else { throw .fileNameTooLong }
    let names = path.bytes.split(separator: UInt8(ascii: "/"))
    guard let last = names.last else { throw .fileExists }
    guard last.count <= Self.longestName else { throw .fileNameTooLong }
    var walk = Walk(kernel: self, at: path.bytes.first == UInt8(ascii: "/") ? root : start ?? root, caller: caller)
    for name in names.dropLast() { try walk.step(PathName(bytes: name), following: true) }
    guard walk.inode.isDirectory else { throw .notDirectory }
    return (walk.inode, PathName(bytes: last))
  }

  private struct Walk {
    let kernel: InProcessKernel
    var inode: Inode
    let caller: CallerIdentity
    var links = 0

    init(kernel: InProcessKernel, at start: Inode, caller: CallerIdentity) {
      self.kernel = kernel
      inode = start
      self.caller = caller
    }

    mutating func take(_ path: PathName, following: Bool) throws(Errno) -> Inode {
      guard !path.bytes.isEmpty else { throw .noSuchFileOrDirectory }
      guard path.terminated.count <= longestPath else { throw .fileNameTooLong }
      if path.bytes.first == UInt8(ascii: "/") { inode = kernel.root }
      let names = path.bytes.split(separator: UInt8(ascii: "/"))
      let endsInSlash = path.bytes.last == UInt8(ascii: "/")
      for (index, name) in names.enumerated() {
        let isLast = index == names.count - 1
        try step(PathName(bytes: name), following: !isLast || following || endsInSlash)
      }
      if endsInSlash, !inode.isDirectory { throw .notDirectory }
      return inode
    }

    mutating func step(_ name: PathName, following: Bool) throws(Errno) {
      guard inode.isDirectory else { throw .notDirectory }
      if name == "." { return }
      if name == ".." { return inode = inode.parent ?? inode }
      guard name.bytes.count <= longestName else { throw .fileNameTooLong }
      let directory = inode
      let found = try kernel.lookup(name, in: directory, by: caller)
      guard found.isSymbolicLink, following else { return inode = found }
      links += 1
      guard links <= mostLinks else { throw .tooManySymbolicLinkLevels }
      let target = try kernel.target(of: found, by: caller)
      inode = directory
      inode = try take(target, following: true)
    }
  }
}
