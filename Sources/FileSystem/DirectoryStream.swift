import LinuxIO
import StoreFormat
import Synchronization
import SystemPackage

/// An open directory that is being read: raw entries of the backing directory, buffered (getdents64(2)).
final class DirectoryStream: Sendable {
  /// An entry of the backing directory. Offsets are the backing file system's own, and so stay good while entries come
  /// and go.
  struct RawEntry {
    let name: PathName
    let inode: UInt64
    /// The type bits of a mode.
    let type: UInt32
    /// Where reading goes on behind the entry.
    let next: UInt64
  }

  private struct Buffer {
    var entries: ArraySlice<RawEntry> = []
    /// The offset of the first buffered entry, or of what would be read next.
    var offset: UInt64 = 0
  }

  let descriptor: Descriptor
  private let buffer = Mutex(Buffer())

  init(_ descriptor: consuming Descriptor) {
    self.descriptor = descriptor
  }

  /// Calls `body` with the entries from `offset` on, until it answers `false` or there are no more. Entries that it did
  /// not want are there for the next call.
  func entries(
    from offset: UInt64, _ body: (RawEntry) throws(Errno) -> Bool
  ) throws(Errno) {
    try buffer.withLock { (buffer) throws(Errno) in
      if offset != buffer.offset {
        _ = try descriptor.seek(to: offset, .start)
        buffer = Buffer(entries: [], offset: offset)
      }
      while true {
        if buffer.entries.isEmpty {
          buffer.entries = try read()
          if buffer.entries.isEmpty { return }
        }
        while let entry = buffer.entries.first {
          guard try body(entry) else { return }
          buffer.entries.removeFirst()
          buffer.offset = entry.next
        }
      }
    }
  }

  /// Whether there is nothing in the directory but itself and its parent.
  func isEmpty() throws(Errno) -> Bool {
    var isEmpty = true
    try entries(from: 0) { (entry) throws(Errno) in
      if entry.name != "." && entry.name != ".." { isEmpty = false }
      return isEmpty
    }
    return isEmpty
  }

  /// The names in a directory that holds sidecars of long names and nothing else; `nil` when it holds more.
  func onlySidecars() throws(Errno) -> [PathName]? {
    var names: [PathName]? = []
    try entries(from: 0) { (entry) throws(Errno) in
      if entry.name == "." || entry.name == ".." { return true }
      if case .sidecar = NameEncoding.parse(entry.name.bytes) {
        names?.append(entry.name)
        return true
      }
      names = nil
      return false
    }
    return names
  }

  /// Reads the next entries. struct linux_dirent64: inode u64, offset i64, length u16, type u8, name.
  private func read() throws(Errno) -> ArraySlice<RawEntry> {
    var bytes = [UInt8](repeating: 0, count: 32768)
    let count = try unsafe bytes.withMutableBytes { (buffer) throws(Errno) in
      try unsafe descriptor.readDirectoryEntries(into: buffer)
    }
    var entries: ArraySlice<RawEntry> = []
    unsafe bytes.withBytes { raw in
      var position = 0
      while position < count {
        let length = unsafe Int(raw.loadUnaligned(fromByteOffset: position + 16, as: UInt16.self))
        let name = unsafe raw[(position + 19)..<(position + length)].prefix { $0 != 0 }
        unsafe entries.append(
          RawEntry(
            name: PathName(bytes: name), inode: raw.loadUnaligned(fromByteOffset: position, as: UInt64.self),
            type: UInt32(raw[position + 18]) << 12,
            next: raw.loadUnaligned(fromByteOffset: position + 8, as: UInt64.self)))
        position += length
      }
    }
    return entries
  }
}
