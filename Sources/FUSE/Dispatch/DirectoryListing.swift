import CFUSE
import ProtectfsIO

/// The answer to readdir or readdirplus. Entries are appended until it is full.
@safe package struct DirectoryListing: ~Copyable {
  private let request: fuse_req_t
  private let buffer: UnsafeMutableRawBufferPointer
  private(set) var count = 0
  package var isEmpty: Bool { count == 0 }
  /// Each entry is a lookup as well (readdirplus).
  package let isPlus: Bool

  init(_ request: fuse_req_t, buffer: UnsafeMutableRawBufferPointer, isPlus: Bool) {
    unsafe self.request = request
    unsafe self.buffer = buffer
    self.isPlus = isPlus
  }

  /// The entries so far.
  var bytes: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(rebasing: buffer[..<count]) }

  /// Whether a name fits. To be called before a lookup, which cannot be undone quietly.
  package func fits(_ name: PathName) -> Bool {
    let size = unsafe name.withCString {
      isPlus
        ? unsafe fuse_add_direntry_plus(request, nil, 0, $0, nil, 0)
        : unsafe fuse_add_direntry(request, nil, 0, $0, nil, 0)
    }
    return unsafe count + size <= buffer.count
  }

  /// Adds a name with its inode number and type; `next` is the offset of the entry after it.
  package mutating func append(_ name: PathName, inode: UInt64, mode: UInt32, next: UInt64) {
    var attributes = Status()
    attributes.inode = inode
    attributes.mode = mode
    if isPlus {
      // Node 0: no lookup was made for this entry.
      append(
        name, Entry(node: NodeID(rawValue: 0), attributes: attributes, entryTimeout: 0, attributeTimeout: 0), next: next
      )
      return
    }
    var status = attributes.stat
    let (rest, room) = unsafe (destination, buffer.count - count)
    count += unsafe name.withCString { unsafe fuse_add_direntry(request, rest, room, $0, &status, off_t(next)) }
  }

  /// Adds a name with the answer to its lookup.
  package mutating func append(_ name: PathName, _ entry: Entry, next: UInt64) {
    var parameters = entry.parameters
    let (rest, room) = unsafe (destination, buffer.count - count)
    count += unsafe name.withCString {
      unsafe fuse_add_direntry_plus(request, rest, room, $0, &parameters, off_t(next))
    }
  }

  private var destination: UnsafeMutablePointer<CChar> {
    unsafe (buffer.baseAddress! + count).assumingMemoryBound(to: CChar.self)
  }
}
