import Glibc
import ProtectfsIO

// Calls on attributes.
extension SimulatedDisk {
  func setMode(_ inode: Int, _ mode: UInt32) { make(.mode(inode, image[inode].mode & 0o170000 | mode & 0o7777)) }

  func setOwner(_ inode: Int, _ user: UInt32, _ group: UInt32) {
    let old = image[inode]
    make(.owner(inode, user: user == .max ? old.user : user, group: group == .max ? old.group : group))
  }

  /// The access time is not kept.
  func setTimes(_ inode: Int, modification: timespec) {
    switch modification.tv_nsec {
    case 0x3fff_fffe: break
    case 0x3fff_ffff: make(.time(inode, seconds: 1_600_000_000, nanoseconds: 0))
    default: make(.time(inode, seconds: Int64(modification.tv_sec), nanoseconds: UInt32(modification.tv_nsec)))
    }
  }

  func setAttribute(_ inode: Int, _ name: PathName, _ value: [UInt8], _ mode: AttributeMode?) throws(Failure) {
    let isThere = image[inode].attributes[name] != nil
    if mode == .create, isThere { throw Failure(EEXIST) }
    if mode == .replace, !isThere { throw Failure(ENODATA) }
    make(.attribute(inode, name, value))
  }

  func removeAttribute(_ inode: Int, _ name: PathName) throws(Failure) {
    guard image[inode].attributes[name] != nil else { throw Failure(ENODATA) }
    make(.attribute(inode, name, nil))
  }

  func attribute(
    _ inode: Int, _ name: PathName, into buffer: UnsafeMutableRawBufferPointer
  ) throws(Failure) -> Int {
    guard let value = image[inode].attributes[name] else { throw Failure(ENODATA) }
    return try unsafe fill(buffer, with: value)
  }

  func attributeNames(_ inode: Int, into buffer: UnsafeMutableRawBufferPointer) throws(Failure) -> Int {
    try unsafe fill(
      buffer,
      with: image[inode].attributes.keys.map(\.terminated).sorted { $0.lexicographicallyPrecedes($1) }.flatMap(\.self))
  }

  private func fill(_ buffer: UnsafeMutableRawBufferPointer, with value: [UInt8]) throws(Failure) -> Int {
    if unsafe buffer.isEmpty { return value.count }
    guard value.count <= buffer.count else { throw Failure(ERANGE) }
    unsafe buffer.copyBytes(from: value)
    return value.count
  }
}
