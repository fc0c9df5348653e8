import DataProtection
import FUSE
import FileProtection
import LinuxIO
import SystemPackage

// open, read, write, release and the rest on open files.
//
// A handle is the address of its node's open file, which lives until its last handle is released.
extension ProtectedFileSystem {
  package func open(_ id: NodeID, flags: HandleFlags, caller: Caller) throws(Errno) -> Opened {
    let node = nodes.node(id)
    return try reportingDenial(of: .open, on: node, by: caller) { () throws(Errno) in
      let file = try openFile(node, forWriting: flags.forWriting)
      if flags.truncates {
        do throws(Errno) {
          try prepareForWriting(file, node)
          try file.truncate(to: 0)
          if flags.clearsSetID { try clearSetID(of: file) }
        } catch {
          close(file, of: node, wasWriter: flags.forWriting)
          throw error
        }
      }
      return opened(file)
    }
  }

  func opened(_ file: ProtectedFile) -> Opened {
    let address = unsafe UInt64(UInt(bitPattern: Unmanaged.passUnretained(file).toOpaque()))
    return Opened(handle: Handle(rawValue: address), keepsCache: !options.isShared)
  }

  func file(_ handle: Handle) -> ProtectedFile {
    let address = unsafe UnsafeRawPointer(bitPattern: UInt(handle.rawValue))!
    return unsafe Unmanaged<ProtectedFile>.fromOpaque(address).takeUnretainedValue()
  }

  package func release(_ handle: Handle, of id: NodeID, flags: HandleFlags) {
    close(file(handle), of: nodes.node(id), wasWriter: flags.forWriting)
  }

  package func read(
    _ handle: Handle, of id: NodeID, at offset: UInt64, count: Int, into buffer: UnsafeMutableRawBufferPointer,
    caller: Caller
  ) throws(Errno) -> (bytes: UnsafeRawBufferPointer, wipe: Bool) {
    let file = file(handle)
    do throws(Errno) {
      let bytes = try unsafe file.read(at: offset, count: count, into: buffer)
      let losesKey = file.fileClass.losesKey
      if losesKey { unsafe wipe(buffer, around: bytes) }
      return unsafe (bytes, losesKey)
    } catch {
      report(error, .read, on: id, by: caller)
      throw error
    }
  }

  package func write(
    _ handle: Handle, of id: NodeID, at offset: UInt64, bytes: UnsafeMutableRawBufferPointer, flags: WriteFlags,
    caller: Caller
  ) throws(Errno) -> Int {
    let file = file(handle)
    // Whole units are encrypted where they are; of anything else plaintext may be left in the request.
    defer { if file.fileClass.losesKey { unsafe Memory.wipe(bytes) } }
    do throws(Errno) {
      let written = try unsafe file.write(bytes, at: offset)
      file.wrote(fromCache: flags.contains(.fromCache) && !options.isShared)
      if flags.contains(.clearsSetID) { try clearSetID(of: file) }
      return written
    } catch {
      report(error, .write, on: id, by: caller)
      throw error
    }
  }

  package func synchronize(_ handle: Handle, dataOnly: Bool) throws(Errno) {
    try file(handle).synchronize(dataOnly: dataOnly)
  }

  package func allocate(
    _ handle: Handle, of id: NodeID, mode: AllocationMode, offset: UInt64, length: UInt64, caller: Caller
  ) throws(Errno) {
    let file = file(handle)
    do throws(Errno) {
      try file.allocate(mode, offset: offset, length: length)
      // The kernel does not say who may keep the bits here.
      if caller.user != 0 { try clearSetID(of: file) }
    } catch {
      report(error, .resize, on: id, by: caller)
      throw error
    }
  }

  /// Pages become dirty only while a handle that may write, or a mapping made through one, is open: close(2) writes them
  /// back.
  package func mayHaveDirtyPages(_ node: NodeID) -> Bool {
    nodes.node(node).state.withLock { $0.writers > 0 }
  }

  package func seek(_ handle: Handle, to offset: UInt64, _ origin: SeekOrigin) throws(Errno) -> UInt64 {
    try file(handle).seek(to: offset, origin)
  }

  package func copyRange(
    from source: Handle, at sourceOffset: UInt64, to target: Handle, of id: NodeID, at targetOffset: UInt64,
    count: Int, buffer: UnsafeMutableRawBufferPointer, caller: Caller
  ) throws(Errno) -> Int {
    let (source, target) = (file(source), file(target))
    defer { if source.fileClass.losesKey || target.fileClass.losesKey { unsafe Memory.wipe(buffer) } }
    var done = 0
    while done < count {
      let chunk = min(count - done, Session.maximumTransfer)
      do throws(Errno) {
        let bytes = try unsafe source.read(at: sourceOffset + UInt64(done), count: chunk, into: buffer)
        if unsafe bytes.isEmpty { break }
        done += try unsafe target.write(
          UnsafeMutableRawBufferPointer(mutating: bytes), at: targetOffset + UInt64(done))
      } catch {
        if done > 0 { break }
        report(error, .write, on: id, by: caller)
        throw error
      }
    }
    if done > 0, caller.user != 0 { try clearSetID(of: target) }
    return done
  }

  private func clearSetID(of file: ProtectedFile) throws(Errno) {
    try file.withDescriptor { (descriptor) throws(Errno) in try clearSetID(of: descriptor) }
  }

  /// Overwrites what was decrypted beside the bytes asked for: units are decrypted whole. The bytes themselves go when
  /// they have been sent.
  private func wipe(_ buffer: UnsafeMutableRawBufferPointer, around bytes: UnsafeRawBufferPointer) {
    guard let start = buffer.baseAddress, let first = bytes.baseAddress, bytes.count > 0 else { return }
    let lower = unsafe first - UnsafeRawPointer(start)
    let upper = lower + bytes.count
    let end = min(buffer.count, upper + Int(DataUnits.size))
    unsafe Memory.wipe(UnsafeMutableRawBufferPointer(rebasing: buffer[..<lower]))
    unsafe Memory.wipe(UnsafeMutableRawBufferPointer(rebasing: buffer[upper..<end]))
  }

  private func report(_ error: Errno, _ operation: ProtectionPolicy.Operation, on id: NodeID, by caller: Caller) {
    if error == .permissionDenied { denied(operation, on: nodes.node(id), by: caller) }
  }
}

extension ProtectionClass {
  /// The class's key can go while the file system is mounted, so plaintext must not stay behind in the daemon's memory.
  var losesKey: Bool { self != .none && self != .completeUntilFirstUserAuthentication }
}
