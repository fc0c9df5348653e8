import Contents
import ProtectfsIO
import ProtectfsPolicy
import Synchronization
import SystemPackage

// Calls on the contents: what the class permits, which lock is held meanwhile, and whether a time moves.
extension ProtectedFile {
  /// Reads up to `count` bytes of plaintext at `offset` into `buffer`, which needs room for two more units and
  /// a block.
  ///
  /// An *access* moves the access time if it is the first since the file was opened or changed. That is enough for
  /// `relatime`.
  ///
  /// - Returns: the bytes, which are in `buffer` but not at its start. There are none at or past the end of the file.
  /// - Throws: `EACCES` if the class does not allow it, `EIO` for a length that no plaintext can have, or the error of
  ///   pread(2).
  package func read(
    at offset: UInt64, count: Int, into buffer: UnsafeMutableRawBufferPointer, isAccess: Bool = false,
    overlay: ContentsLayout.Overlay? = nil
  ) throws(Errno) -> UnsafeRawBufferPointer {
    try requireNotDenied(.read)
    return try unsafe contentsLock.read { () throws(Errno) in
      let cipher = try cipher(for: .read)
      let movesAccessTime = isAccess && isAccessDue.exchange(false, ordering: .relaxed)
      return try unsafe contents.read(
        at: offset, count: count, into: buffer, cipher: cipher, movesAccessTime: movesAccessTime, overlay: overlay)
    }
  }

  /// Writes plaintext at `offset`; see ``FileContents/write(_:at:cipher:keepingPart:whenFull:)``.
  ///
  /// - Throws: `EACCES` if the class does not allow it, `EFBIG`, or the error of pread(2) or pwrite(2).
  package func write(
    _ bytes: UnsafeMutableRawBufferPointer, at offset: UInt64, keepingPart: Bool = false,
    whenFull: () -> Bool = { false }
  ) throws(Errno) {
    guard bytes.count > 0 else { return }
    try layout.requirePossible(offset + UInt64(bytes.count))
    try changing(for: .write) { (cipher) throws(Errno) in
      try unsafe contents.write(bytes, at: offset, cipher: cipher, keepingPart: keepingPart, whenFull: whenFull)
    }
  }

  /// Sets the length in bytes. Added bytes read as zeros.
  ///
  /// - Throws: `EACCES` if the class does not allow it, `EFBIG`, or the error of the backing file system.
  package func truncate(to newLength: UInt64) throws(Errno) {
    try layout.requirePossible(newLength)
    try changing(for: .resize) { (cipher) throws(Errno) in
      try contents.resize(to: newLength, cipher: cipher, taking: nil)
    }
  }

  /// Allocates, punches or zeroes a range (fallocate(2)).
  ///
  /// - Throws: `EINVAL` for an empty range, `EACCES` if the class does not allow it, `EFBIG`, `EOPNOTSUPP` for modes
  ///   that move data to other places, or the error of the backing file system.
  package func allocate(_ mode: AllocationMode, offset: UInt64, length count: UInt64) throws(Errno) {
    let end = offset + count
    guard count > 0 else { throw .invalidArgument }
    try layout.requirePossible(end)
    try changing(for: .resize) { (cipher) throws(Errno) in
      try contents.allocate(mode, offset..<end, cipher: cipher)
    }
  }

  /// Finds data or a hole at or after an offset (lseek(2)). Needs no key, since holes are visible in the backing file.
  ///
  /// - Throws: `ENXIO` past the end of the file or, for data, if none follows.
  package func seek(to offset: UInt64, _ origin: SeekOrigin) throws(Errno) -> UInt64 {
    try contentsLock.read { () throws(Errno) in try contents.seek(to: offset, origin) }
  }

  /// The backing file's status.
  package func status() throws(Errno) -> Status { try contents.backing.descriptor.status() }

  /// Writes data and metadata to the device. An error is kept for all handles. The caller may hold the contents lock.
  package func synchronize(dataOnly: Bool) throws(Errno) { try contents.backing.synchronize(dataOnly: dataOnly) }

  /// Repairs what a failure has left, as far as the class allows now: before the file is synchronised, and before it is
  /// closed. The caller does not hold the contents lock.
  package func repair() throws(Errno) {
    guard contents.needsRepair else { return }
    try contentsLock.write { () throws(Errno) in
      if isRefused || isAbandoned { return }
      try repair(try? cipher(for: .write))
    }
  }

  /// The same before a change, for which the length is looked up where others change it too. The caller holds the
  /// contents lock exclusively.
  func repair(_ cipher: ContentsCipher?) throws(Errno) {
    try contents.backing.renewLength()
    guard contents.needsRepair else { return }
    // The backing file's time is not that of a change that anybody has made.
    movedModificationTime()
    try contents.repair(cipher)
  }

  /// Runs `body`, which changes contents, with the contents lock held exclusively.
  private func changing(
    for operation: ProtectionPolicy.Operation, _ body: (ContentsCipher) throws(Errno) -> Void
  ) throws(Errno) {
    try requireNotDenied(operation)
    try announceChange()
    try contentsLock.write { () throws(Errno) in
      let cipher = try cipher(for: operation)
      try repair(cipher)
      try body(cipher)
    }
  }
}
