import BackingTree
import FUSE
import FileProtection
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// open, read, write, release and the rest on open files.
//
// A handle is the address of a `FileHandle`, which lives until it is released.
extension ProtectedFileSystem {
  package func open(_ id: NodeID, flags: HandleFlags, caller: Caller) throws(Errno) -> Opened {
    let node = node(id)
    return try reportingDenial(of: .open, on: node, by: caller) { () throws(Errno) in
      let file = try tree.openFile(node, forWriting: flags.forWriting)
      if flags.truncates {
        do throws(Errno) {
          try tree.prepareForWriting(file, node)
          // First, since the change of length cannot be undone.
          if flags.clearsSetID { try clearSetID(of: file, id, before: .resize, for: caller) }
          try file.truncate(to: 0)
          tree.noteChange(of: file)
        } catch {
          tree.close(file, of: node, wasWriter: flags.forWriting)
          throw error
        }
      }
      if !flags.forWriting { tree.fileReadAhead.opened(node, in: tree) }
      return opened(file)
    }
  }

  func opened(_ file: ProtectedFile) -> Opened {
    let address = unsafe UInt64(UInt(bitPattern: Unmanaged.passRetained(FileHandle(file)).toOpaque()))
    return Opened(handle: Handle(rawValue: address), keepsCache: tree.options.writers == .sole)
  }

  func file(_ handle: Handle) -> ProtectedFile { unsafe reference(handle)._withUnsafeGuaranteedRef { $0.file } }

  private func reference(_ handle: Handle) -> Unmanaged<FileHandle> {
    unsafe Unmanaged.fromOpaque(UnsafeRawPointer(bitPattern: UInt(handle.rawValue))!)
  }

  package func release(_ handle: Handle, of id: NodeID, flags: HandleFlags) {
    let handle = unsafe reference(handle).takeRetainedValue()
    tree.close(handle.file, of: node(id), wasWriter: flags.forWriting)
  }

  /// A first read that takes longer has waited for the disk, in nanoseconds.
  private static let diskWait: Int64 = 40_000

  package func read(
    _ handle: Handle, of id: NodeID, at offset: UInt64, count: Int, into buffer: UnsafeMutableRawBufferPointer,
    flags: HandleFlags, caller: Caller
  ) throws(Errno) -> UnsafeRawBufferPointer {
    let file = file(handle)
    // The kernel also reads through a handle that may not read, to fill a page that is written in part.
    let isAccess = flags.forReading && !flags.keepsAccessTime
    let node = node(id)
    let start = offset == 0 ? MonotonicClock.nanoseconds : .max
    let range = offset..<offset + UInt64(count)
    let bytes = try unsafe reportingDenial(of: .read, on: node, by: caller, in: range) { () throws(Errno) in
      guard tree.options.writers == .reading else {
        return try unsafe file.read(at: offset, count: count, into: buffer, isAccess: isAccess)
      }
      var isRepeated = false
      return try unsafe tree.readBesideWriter(file, node) { (overlay) throws(Errno) in
        // The file may have become shorter.
        if isRepeated { unsafe Memory.wipe(buffer) }
        isRepeated = true
        return try unsafe file.read(at: offset, count: count, into: buffer, overlay: overlay)
      }
    }
    if offset == 0, MonotonicClock.nanoseconds - start > Self.diskWait {
      tree.fileReadAhead.waited(for: node, in: tree)
    }
    return unsafe bytes
  }

  package func write(
    _ handle: Handle, of id: NodeID, at offset: UInt64, bytes: UnsafeMutableRawBufferPointer, flags: WriteFlags,
    caller: Caller
  ) throws(Errno) -> Int {
    let file = file(handle)
    // Whole units are encrypted in place. Otherwise the request may still contain plaintext, in any class: the file may
    // be raised to one that is locked before other data replaces it.
    defer { unsafe Memory.wipe(bytes) }
    // A short count is not an answer. For pages from the cache the kernel takes any count for success; for a direct
    // write it turns a count below the requested one into EIO (fuse_writepage_end and fuse_get_res_by_io in
    // fs/fuse/file.c).
    let isFromCache = flags.contains(.fromCache)
    let count = bytes.count
    do throws(Errno) {
      let range = offset..<offset + UInt64(count)
      try reportingDenial(of: .write, on: node(id), by: caller, in: range) { () throws(Errno) in
        if flags.contains(.clearsSetID) { try clearSetID(of: file, id, before: .write, for: caller) }
        try unsafe file.write(bytes, at: offset, keepingPart: isFromCache, whenFull: forgets.wait)
      }
    } catch {
      if error == .permissionDenied, isFromCache { refusedWriteBack(to: id) }
      if isFromCache, isBeingLocked(file) {
        let fileClass = file.fileClass
        failedPushes.withLock { $0[node(id).identity.inode] = (fileClass, error) }
      }
      throw error
    }
    if isFromCache, isBeingLocked(file) { pushes.wrappingAdd(1, ordering: .relaxed) }
    tree.noteChange(of: file)
    return count
  }

  private func isBeingLocked(_ file: ProtectedFile) -> Bool {
    if case .revoking = tree.controller.availability(of: file.fileClass) { true } else { false }
  }

  /// Other hosts see what was written by the time that a program has closed the file, as network file systems have it
  /// (close-to-open consistency, nfs(5)): the handle's own close comes later.
  package var flushesOnClose: Bool { tree.options.writers.mayWrite && tree.root.descriptor.mayServeSeveralHosts }

  package func mustFlush(_ handle: Handle) -> Bool { file(handle).hasUnflushed }

  package func flush(_ handle: Handle) throws(Errno) { try file(handle).flush() }

  package func synchronize(_ handle: Handle, dataOnly: Bool) throws(Errno) {
    let handle = unsafe reference(handle).takeUnretainedValue()
    // The record that a file had when an earlier mount was killed may not be durable either.
    let dataOnly = dataOnly && !tree.hasUnreplayedBatches
    try handle.file.repair()
    // After a crash, too, the file has the time that callers have seen.
    if !dataOnly { try handle.file.applyModificationTime() }
    try handle.synchronize(dataOnly: dataOnly)
  }

  package func allocate(
    _ handle: Handle, of id: NodeID, mode: AllocationMode, offset: UInt64, length: UInt64, caller: Caller
  ) throws(Errno) {
    let file = file(handle)
    try reportingDenial(of: .resize, on: node(id), by: caller) { () throws(Errno) in
      // Here the kernel does not say whether the caller may keep the bits.
      if caller.user != 0 { try clearSetID(of: file, id, before: .resize, for: caller) }
      try file.allocate(mode, offset: offset, length: length)
    }
    tree.noteChange(of: file)
  }

  /// Pages become dirty only while a handle that may write, or a mapping made through one, is open. close(2) writes
  /// them back.
  package func mayHaveDirtyPages(_ node: NodeID) -> Bool {
    self.node(node).state.withLock { $0.writers > 0 }
  }

  package func seek(_ handle: Handle, to offset: UInt64, _ origin: SeekOrigin) throws(Errno) -> UInt64 {
    try file(handle).seek(to: offset, origin)
  }

  package func copyRange(
    from source: Handle, of sourceID: NodeID, at sourceOffset: UInt64,
    to target: Handle, of id: NodeID, at targetOffset: UInt64,
    count: Int, buffer: UnsafeMutableRawBufferPointer, caller: Caller
  ) throws(Errno) -> Int {
    let (source, target) = (file(source), file(target))
    var done = 0
    while done < count {
      let chunk = min(count - done, Session.maximumTransfer)
      let room = unsafe Session.room(for: chunk, in: buffer)
      do throws(Errno) {
        let copied = try source.copying { () throws(Errno) in
          defer { unsafe Memory.wipe(room) }
          let bytes: UnsafeRawBufferPointer
          do throws(Errno) {
            unsafe bytes = try unsafe source.read(at: sourceOffset + UInt64(done), count: chunk, into: room)
          } catch {
            throw tree.answer(to: error, of: node(sourceID))
          }
          guard unsafe !bytes.isEmpty else { return 0 }
          if done == 0, caller.user != 0 { try clearSetID(of: target, id, before: .write, for: caller) }
          try unsafe target.write(UnsafeMutableRawBufferPointer(mutating: bytes), at: targetOffset + UInt64(done))
          return bytes.count
        }
        if copied == 0 { break }
        done += copied
      } catch {
        if done > 0 { break }
        throw reported(error, of: .write, on: node(id), by: caller)
      }
    }
    if done > 0 { tree.noteChange(of: target) }
    return done
  }

}
