import ProtectfsIO
import StoreFormat
import Synchronization
import SystemPackage

/// An open directory that is being read: the entries of the backing directory, buffered.
package final class DirectoryStream: Sendable {
  private struct Buffer {
    var entries: ArraySlice<DirectoryEntry> = []
    /// The offset of the first buffered entry, or of what would be read next.
    var offset: UInt64 = 0
    /// How many entries at the front `upcoming` has told.
    var told = 0
  }

  package let descriptor: Descriptor
  private let buffer = Mutex(Buffer())

  package init(_ descriptor: consuming Descriptor) {
    self.descriptor = descriptor
  }

  /// Calls `body` with the entries from `offset` on, until it answers `false` or there are no more. Entries that it did
  /// not want are there for the next call.
  package func entries(
    from offset: UInt64, _ body: (DirectoryEntry) throws(Errno) -> Bool
  ) throws(Errno) {
    try buffer.withLock { (buffer) throws(Errno) in
      if offset != buffer.offset {
        _ = try descriptor.seek(to: offset, .start)
        buffer = Buffer(entries: [], offset: offset)
      }
      while true {
        if buffer.entries.isEmpty {
          buffer.entries = try descriptor.nextEntries()[...]
          buffer.told = 0
          if buffer.entries.isEmpty { return }
        }
        while let entry = buffer.entries.first {
          guard try body(entry) else { return }
          buffer.entries.removeFirst()
          buffer.told = max(buffer.told - 1, 0)
          buffer.offset = entry.next
        }
      }
    }
  }

  /// The names of entries that are buffered for the next calls, up to `limit` entries ahead; each is told once.
  package func upcoming(_ limit: Int) -> [PathName] {
    buffer.withLock { buffer in
      let names = buffer.entries.prefix(limit).dropFirst(buffer.told).map(\.name)
      buffer.told += names.count
      return names
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
}

// Directories that are listed.
extension BackingTree {
  /// The store's own directory in the backing root.
  static let storeDirectory = PathName(NameEncoding.storeDirectory)

  /// Through /proc, because opening `.` in it would need permission to search it as well.
  package func openForListing(_ handle: SharedDescriptor, keepsAccessTime: Bool = true) throws(Errno) -> Descriptor {
    let path = PathName(descriptor: handle.descriptor)
    return try lendingPermissions(of: handle.descriptor) { () throws(Errno) in
      if keepsAccessTime {
        do throws(Errno) {
          return try Descriptor.open(path, [.readOnly, .directory, .keepAccessTime])
        } catch .notPermitted {
          // The directory is not the daemon's own, and it has no privileges: then its time moves.
        }
      }
      return try Descriptor.open(path, [.readOnly, .directory])
    }
  }
}
