import ProtectfsIO
import StoreFormat
import SystemPackage

/// An open directory that is being read, with the buffered entries of the backing directory.
package final class DirectoryStream: Sendable {
  private struct Buffer {
    var entries: ArraySlice<DirectoryEntry> = []
    /// The offset of the first buffered entry or, if there is none, of the next entry to read.
    var offset: UInt64 = 0
    /// The number of entries at the front that `upcoming` has returned.
    var returned = 0
  }

  package let descriptor: Descriptor
  private let buffer = RankedMutex(.directoryStream, Buffer())

  package init(_ descriptor: consuming Descriptor) {
    self.descriptor = descriptor
  }

  /// Calls `body` with the entries from `offset` on, until `body` returns `false` or there are no more. An entry that
  /// `body` refused is passed to it again in the next call.
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
          buffer.returned = 0
          if buffer.entries.isEmpty { return }
        }
        while let entry = buffer.entries.first {
          guard try body(entry) else { return }
          buffer.entries.removeFirst()
          buffer.returned = max(buffer.returned - 1, 0)
          buffer.offset = entry.next
        }
      }
    }
  }

  /// The names of buffered entries for the next calls, up to `limit` entries ahead. Each name is returned once.
  package func upcoming(_ limit: Int) -> [PathName] {
    buffer.withLock { buffer in
      let names = buffer.entries.prefix(limit).dropFirst(buffer.returned).map(\.name)
      buffer.returned += names.count
      return names
    }
  }
}

// Listing directories.
extension BackingTree {
  /// The store's own directory in the backing root.
  static let storeDirectory = PathName(NameEncoding.storeDirectory)

  /// Opens a directory for listing. It goes through /proc, because opening `.` in the directory would also need search
  /// permission.
  package func openForListing(_ handle: SharedDescriptor, keepsAccessTime: Bool = true) throws(Errno) -> Descriptor {
    let path = PathName(descriptor: handle.descriptor)
    return try ownerPermissions.ensuring(on: handle.descriptor) { () throws(Errno) in
      if keepsAccessTime {
        do throws(Errno) {
          return try Descriptor.open(path, [.readOnly, .directory, .keepAccessTime])
        } catch .notPermitted {
          // The directory belongs to another user, and the daemon has no privileges, so the access time moves.
        }
      }
      return try Descriptor.open(path, [.readOnly, .directory])
    }
  }
}
