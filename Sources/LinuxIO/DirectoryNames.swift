import SystemPackage

/// The names in a directory, read once.
package struct DirectoryNames: ~Copyable {
  private let descriptor: Descriptor

  /// The names of an open directory, which must be at its start.
  package init(_ descriptor: consuming Descriptor) {
    self.descriptor = descriptor
  }

  /// Up to `limit` names, `.` and `..` left out.
  package func all(limit: Int) throws(Errno) -> [PathName] {
    var names: [PathName] = []
    while names.count < limit {
      let next = try descriptor.nextNames()
      if next.isEmpty { break }
      names += next.prefix(limit - names.count)
    }
    return names
  }
}

extension Descriptor {
  /// The next few hundred names of this open directory, `.` and `..` left out; none at its end (getdents64(2)).
  /// struct linux_dirent64: inode u64, offset i64, length u16, type u8, name.
  package func nextNames() throws(Errno) -> [PathName] {
    var names: [PathName] = []
    var bytes = [UInt8](repeating: 0, count: 32768)
    while names.isEmpty {
      let count = try unsafe bytes.withMutableBytes { (buffer) throws(Errno) in
        try unsafe readDirectoryEntries(into: buffer)
      }
      if count == 0 { break }
      var position = 0
      while position < count {
        let length = Int(bytes[position + 16]) | Int(bytes[position + 17]) << 8
        let name = PathName(bytes: bytes[(position + 19)..<(position + length)].prefix { $0 != 0 })
        if name != "." && name != ".." { names.append(name) }
        position += length
      }
    }
    return names
  }
}
