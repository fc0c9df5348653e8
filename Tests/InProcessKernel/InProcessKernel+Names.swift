import CFUSE
import Glibc
import ProtectfsIO
import SystemPackage

// Calls that make, move and remove names. What the kernel finds out before it asks is found out here too: the daemon is
// never asked to unlink a directory, for example.
extension InProcessKernel {
  package func makeDirectory(
    _ path: PathName, in start: Inode? = nil, mode: UInt32 = 0o755, by caller: CallerIdentity = .current
  ) throws(Errno) {
    var arguments = Message(fuse_mkdir_in(mode: mode & 0o7777, umask: caller.umask))
    try make(FUSE_MKDIR, path, in: start, &arguments, by: caller)
  }

  /// mknod(2); `device` is as the kernel encodes it to the daemon (`new_encode_dev` in include/linux/kdev_t.h).
  package func makeNode(
    _ path: PathName, in start: Inode? = nil, mode: UInt32, device: UInt32 = 0, by caller: CallerIdentity = .current
  ) throws(Errno) {
    var arguments = Message(fuse_mknod_in(mode: mode, rdev: device, umask: caller.umask, padding: 0))
    try make(FUSE_MKNOD, path, in: start, &arguments, by: caller)
  }

  package func makeSymbolicLink(
    _ path: PathName, to target: PathName, in start: Inode? = nil, by caller: CallerIdentity = .current
  ) throws(Errno) {
    guard !target.bytes.isEmpty else { throw .noSuchFileOrDirectory }
    guard target.terminated.count <= 4096 else { throw .fileNameTooLong }
    let (directory, name) = try freePlace(path, in: start, by: caller)
    var arguments = Message(name)
    arguments.append(target)
    try adopt(ask(FUSE_SYMLINK, of: directory, arguments, by: caller, for: fuse_entry_out.self), in: directory)
  }

  package func link(
    _ path: PathName, as newPath: PathName, in start: Inode? = nil, following: Bool = false,
    by caller: CallerIdentity = .current
  ) throws(Errno) {
    let inode = try inode(path, in: start, following: following, by: caller)
    let (directory, name) = try freePlace(newPath, in: start, by: caller)
    guard !inode.isDirectory else { throw .notPermitted }
    var arguments = Message(fuse_link_in(oldnodeid: inode.number))
    arguments.append(name)
    try adopt(ask(FUSE_LINK, of: directory, arguments, by: caller, for: fuse_entry_out.self), in: directory)
  }

  package func unlink(_ path: PathName, in start: Inode? = nil, by caller: CallerIdentity = .current) throws(Errno) {
    let (directory, name) = try place(of: path, in: start, by: caller)
    guard name != ".", name != ".." else { throw .isDirectory }
    guard try !lookup(name, in: directory, by: caller).isDirectory else { throw .isDirectory }
    _ = try device.ask(FUSE_UNLINK, of: directory.number, Message(name), by: caller)
  }

  package func removeDirectory(_ path: PathName, in start: Inode? = nil, by caller: CallerIdentity = .current)
    throws(Errno)
  {
    let (directory, name) = try place(of: path, in: start, by: caller)
    if name == "." { throw .invalidArgument }
    if name == ".." { throw .directoryNotEmpty }
    guard try lookup(name, in: directory, by: caller).isDirectory else { throw .notDirectory }
    _ = try device.ask(FUSE_RMDIR, of: directory.number, Message(name), by: caller)
  }

  /// renameat2(2).
  package func rename(
    _ path: PathName, to newPath: PathName, in start: Inode? = nil, flags: RenameFlags = [],
    by caller: CallerIdentity = .current
  ) throws(Errno) {
    let known: RenameFlags = [.noReplace, .exchange, .whiteout]
    guard known.isSuperset(of: flags), !flags.isSuperset(of: [.exchange, .noReplace]),
      !flags.isSuperset(of: [.exchange, .whiteout])
    else { throw .invalidArgument }
    let (directory, name) = try place(of: path, in: start, by: caller)
    let (newDirectory, newName) = try place(of: newPath, in: start, by: caller)
    let dots: [PathName] = [".", ".."]
    guard !dots.contains(name), !dots.contains(newName) else {
      throw flags.contains(.noReplace) && !dots.contains(name) ? .fileExists : .resourceBusy
    }
    let old = try lookup(name, in: directory, by: caller)
    let new = try found { () throws(Errno) in try lookup(newName, in: newDirectory, by: caller) }
    try check(old, new, from: directory, to: newDirectory, flags)
    if old.number == new?.number { return }
    var arguments = Message(fuse_rename2_in(newdir: newDirectory.number, flags: flags.rawValue, padding: 0))
    arguments.append(name)
    arguments.append(newName)
    _ = try device.ask(FUSE_RENAME2, of: directory.number, arguments, by: caller)
  }

  /// What the kernel refuses of its own accord (`do_renameat2` and `vfs_rename` in fs/namei.c).
  private func check(
    _ old: Inode, _ new: Inode?, from directory: Inode, to newDirectory: Inode, _ flags: RenameFlags
  ) throws(Errno) {
    if flags.contains(.noReplace), new != nil { throw .fileExists }
    if flags.contains(.exchange), new == nil { throw .noSuchFileOrDirectory }
    func isAbove(_ inode: Inode, _ start: Inode) -> Bool {
      var at: Inode? = start
      while let directory = at {
        if directory.number == inode.number { return true }
        at = directory.parent
      }
      return false
    }
    if isAbove(old, newDirectory) { throw .invalidArgument }
    if let new, isAbove(new, directory) { throw flags.contains(.exchange) ? .invalidArgument : .directoryNotEmpty }
    if let new, old.number != new.number, !flags.contains(.exchange) {
      if old.isDirectory, !new.isDirectory { throw .notDirectory }
      if !old.isDirectory, new.isDirectory { throw .isDirectory }
    }
  }

  /// A name that is still free, and its directory.
  private func freePlace(
    _ path: PathName, in start: Inode?, by caller: CallerIdentity
  ) throws(Errno) -> (Inode, PathName) {
    let (directory, name) = try place(of: path, in: start, by: caller)
    if name == "." || name == ".." { throw .fileExists }
    if try found({ () throws(Errno) in try lookup(name, in: directory, by: caller) }) != nil { throw .fileExists }
    return (directory, name)
  }

  private func make(
    _ operation: fuse_opcode, _ path: PathName, in start: Inode?, _ arguments: inout Message, by caller: CallerIdentity
  ) throws(Errno) {
    let (directory, name) = try freePlace(path, in: start, by: caller)
    arguments.append(name)
    try adopt(ask(operation, of: directory, arguments, by: caller, for: fuse_entry_out.self), in: directory)
  }

  /// The kernel knows what was made, until it forgets it: at once.
  private func adopt(_ entry: fuse_entry_out, in directory: Inode) throws(Errno) {
    _ = Inode(entry, in: directory, device)
  }
}

/// `nil` where a name is not there.
func found<Value>(_ body: () throws(Errno) -> Value) throws(Errno) -> Value? {
  do throws(Errno) { return try body() } catch .noSuchFileOrDirectory { return nil }
}
