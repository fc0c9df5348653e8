import SystemPackage

/// The names in a directory, read once.
package struct DirectoryNames: ~Copyable {
  private let descriptor: Descriptor

  /// The names of an open directory, which must be at its start.
  package init(_ descriptor: consuming Descriptor) {
    self.descriptor = descriptor
  }

  /// Up to `limit` names, `.` and `..` left out. struct linux_dirent64: inode u64, offset i64, length u16, type u8, name.
  package func all(limit: Int) throws(Errno) -> [PathName] {
    var names: [PathName] = []
    var bytes = [UInt8](repeating: 0, count: 32768)
    while names.count < limit {
      let count = try unsafe bytes.withMutableBytes { (buffer) throws(Errno) in
        try unsafe descriptor.readDirectoryEntries(into: buffer)
      }
      if count == 0 { break }
      var position = 0
      while position < count, names.count < limit {
        let length = Int(bytes[position + 16]) | Int(bytes[position + 17]) << 8
        let name = PathName(bytes: bytes[(position + 19)..<(position + length)].prefix { $0 != 0 })
        if name != "." && name != ".." { names.append(name) }
        position += length
      }
    }
    return names
  }
}
