import CProtectfsIO
import Glibc
import ProtectfsIO

// Calls on names.
extension SimulatedDisk {
  func open(_ location: Location, _ flags: CInt, mode: UInt32) throws(Failure) -> CInt {
    guard let inode = inode(at: location) else {
      guard flags & O_CREAT != 0 else { throw Failure(ENOENT) }
      return open(try create(.init(mode: InodeType.regular.rawValue | mode & 0o7777), at: location), flags)
    }
    if flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL { throw Failure(EEXIST) }
    switch image[inode].type {
    case .directory where flags & (O_ACCMODE | O_CREAT) != 0: throw Failure(EISDIR)
    case .symbolicLink where flags & OpenFlags.path.rawValue == 0: throw Failure(ELOOP)
    case .directory: break
    default:
      if flags & O_DIRECTORY != 0 { throw Failure(ENOTDIR) }
      if flags & O_TRUNC != 0, image[inode].size > 0 { make(.size(inode, 0)) }
    }
    return open(inode, flags)
  }

  @discardableResult
  func create(_ inode: DiskImage.Inode, at location: Location) throws(Failure) -> Int {
    let place = try place(location)
    if image[place.directory].entries[place.name] != nil { throw Failure(EEXIST) }
    let number = add(inode)
    make(.entry(place.directory, place.name, number))
    return number
  }

  func link(_ inode: Int, at location: Location) throws(Failure) {
    let place = try place(location)
    if image[place.directory].entries[place.name] != nil { throw Failure(EEXIST) }
    if image[inode].type == .directory { throw Failure(EPERM) }
    make(.entry(place.directory, place.name, inode))
  }

  func unlink(_ location: Location, isDirectory: Bool) throws(Failure) {
    let (inode, place) = (try existing(location), try place(location))
    switch (image[inode].type == .directory, isDirectory) {
    case (true, false): throw Failure(EISDIR)
    case (false, true): throw Failure(ENOTDIR)
    default: break
    }
    guard image[inode].entries.isEmpty else { throw Failure(ENOTEMPTY) }
    make(.entry(place.directory, place.name, nil))
  }

  func rename(_ from: Location, to: Location, flags: UInt32) throws(Failure) {
    let (inode, source, target) = (try existing(from), try place(from), try place(to))
    let other = self.inode(at: to)
    if flags & RenameFlags.exchange.rawValue != 0 {
      guard exchangesNames else { throw Failure(EINVAL) }
      guard let other else { throw Failure(ENOENT) }
      return make(.move(source, target, inode, exchanged: other))
    }
    if let other {
      if flags & RenameFlags.noReplace.rawValue != 0 { throw Failure(EEXIST) }
      // Two names of one file: nothing is done (rename(2)).
      if other == inode { return }
      switch (image[inode].type == .directory, image[other].type == .directory) {
      case (true, false): throw Failure(ENOTDIR)
      case (false, true): throw Failure(EISDIR)
      default: guard image[other].entries.isEmpty else { throw Failure(ENOTEMPTY) }
      }
    }
    make(.move(source, target, inode, exchanged: nil))
  }

  func readLink(_ location: Location, into buffer: UnsafeMutableRawBufferPointer) throws(Failure) -> Int {
    let inode = image[try existing(location)]
    guard inode.type == .symbolicLink else { throw Failure(EINVAL) }
    let count = min(buffer.count, inode.target.count)
    unsafe buffer.copyBytes(from: inode.target[..<count])
    return count
  }

  /// As getdents64(2) has them: inode, offset of the next one, length, type, name.
  func entries(_ descriptor: CInt, into buffer: UnsafeMutableRawBufferPointer) -> Int {
    let file = files[descriptor]!
    var names = image[file.inode].entries.sorted { $0.key.description < $1.key.description }
    names.insert((".", file.inode), at: 0)
    names.insert(("..", DiskImage.root), at: 1)
    var (count, position) = (0, file.position)
    for (name, inode) in names.dropFirst(Int(position)) {
      let length = (19 + name.terminated.count + 7) / 8 * 8
      guard count + length <= buffer.count else { break }
      position += 1
      unsafe buffer.storeBytes(of: UInt64(inode), toByteOffset: count, as: UInt64.self)
      unsafe buffer.storeBytes(of: position, toByteOffset: count + 8, as: Int64.self)
      unsafe buffer.storeBytes(of: UInt16(length), toByteOffset: count + 16, as: UInt16.self)
      unsafe buffer.storeBytes(of: UInt8(image[inode].mode >> 12), toByteOffset: count + 18, as: UInt8.self)
      unsafe buffer[(count + 19)...].copyBytes(from: name.terminated)
      count += length
    }
    move(descriptor, to: position)
    return count
  }
}
