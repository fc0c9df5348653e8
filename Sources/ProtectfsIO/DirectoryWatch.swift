import ProtectfsLibc
import SystemPackage

/// Reports files in a directory that were replaced, or written and closed (inotify(7)). The kernel wakes the waiting
/// thread; operations on the files cost nothing more.
package struct DirectoryWatch: ~Copyable, Sendable {
  private let queue: Descriptor

  /// Starts to watch a directory.
  ///
  /// - Throws: `EMFILE` and `ENOSPC` if the user has as many watches as the system permits.
  package init(_ directory: borrowing Descriptor) throws(Errno) {
    let queue = Descriptor(owning: try call("inotify_init1", inotify_init1(O_CLOEXEC)))
    let events = UInt32(IN_CLOSE_WRITE) | UInt32(IN_MOVED_TO) | UInt32(IN_ONLYDIR)
    let path = PathName(descriptor: directory)
    let number = queue.rawValue
    try call("inotify_add_watch", unsafe path.withCString { unsafe inotify_add_watch(number, $0, events) })
    self.queue = queue
  }

  /// Waits until a file with one of these names was replaced or written, or, if there is one, until a deadline.
  ///
  /// - Throws: `ESTALE` if the directory is gone.
  package func wait(for names: PathName..., until deadline: ContinuousClock.Instant? = nil) throws(Errno) {
    let header = MemoryLayout<inotify_event>.size
    var events = [UInt8](repeating: 0, count: 4096)
    var hasCome = false
    while !hasCome {
      if let deadline {
        guard try Poll.wait(for: .readable(queue.rawValue), atMost: deadline - .now) == [true] else { return }
      }
      let count = try unsafe events.withMutableBytes { (buffer) throws(Errno) in
        try unsafe queue.readNext(into: buffer)
      }
      var next = 0
      while next < count {
        let event = unsafe events.withBytes { unsafe $0.loadUnaligned(fromByteOffset: next, as: inotify_event.self) }
        if event.mask & UInt32(IN_IGNORED) != 0 { throw .staleNFSFileHandle }
        let found = events[(next + header)...].prefix(Int(event.len)).prefix { $0 != 0 }
        // The event may be among those that the queue had no room for.
        if event.mask & UInt32(IN_Q_OVERFLOW) != 0 || names.contains(where: { $0.bytes == found }) { hasCome = true }
        next += header + Int(event.len)
      }
    }
  }
}
