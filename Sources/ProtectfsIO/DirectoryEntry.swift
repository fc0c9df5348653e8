import CProtectfsIO
import SystemPackage

/// An entry of a directory, as returned by the kernel (getdents64(2)).
package struct DirectoryEntry: Sendable {
  package let name: PathName
  package let inode: UInt64
  /// The type bits of a mode.
  package let type: UInt32
  /// The offset of the next entry. It is the file system's own and stays valid while entries are added and removed.
  package let next: UInt64
}

extension Descriptor {
  /// The next few hundred entries of this open directory; none at its end.
  package func nextEntries() throws(Errno) -> [DirectoryEntry] {
    var bytes = [UInt8](repeating: 0, count: 32768)
    let count = try unsafe bytes.withMutableBytes { (buffer) throws(Errno) in
      try unsafe check(linux_getdents64(rawValue, buffer.baseAddress, buffer.count))
    }
    var entries: [DirectoryEntry] = []
    unsafe bytes.withBytes { raw in
      var position = 0
      // struct linux_dirent64: inode u64, offset i64, length u16, type u8, name.
      while position < count {
        let length = unsafe Int(raw.loadUnaligned(fromByteOffset: position + 16, as: UInt16.self))
        let name = unsafe raw[(position + 19)..<(position + length)].prefix { $0 != 0 }
        unsafe entries.append(
          DirectoryEntry(
            name: PathName(bytes: name), inode: raw.loadUnaligned(fromByteOffset: position, as: UInt64.self),
            type: UInt32(raw[position + 18]) << 12,
            next: raw.loadUnaligned(fromByteOffset: position + 8, as: UInt64.self)))
        position += length
      }
    }
    return entries
  }
}
