import Glibc
import ProtectfsIO

// Calls on the contents of open files.
extension SimulatedDisk {
  private static let pageSize = DiskImage.pageSize

  /// The file of a descriptor that reads or writes.
  private func regular(_ file: OpenFile, writes: Bool = false) throws(Failure) -> Int {
    if image[file.inode].type == .directory { throw Failure(EISDIR) }
    let mode = file.flags & O_ACCMODE
    guard file.flags & OpenFlags.path.rawValue == 0, writes ? mode != O_RDONLY : mode != O_WRONLY else {
      throw Failure(EBADF)
    }
    return file.inode
  }

  func read(_ file: OpenFile, into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(Failure) -> Int {
    let inode = image[try regular(file)]
    guard offset < inode.size else { return 0 }
    let count = Int(min(UInt64(buffer.count), inode.size - offset))
    var position = 0
    while position < count {
      let (page, place) = (offset + UInt64(position)).quotientAndRemainder(dividingBy: Self.pageSize)
      let part = Int(place)..<Int(place) + min(count - position, Int(Self.pageSize - place))
      let target = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[position..<position + part.count])
      if let bytes = inode.pages[page] {
        unsafe target.copyBytes(from: bytes[part])
      } else {
        unsafe target.initializeMemory(as: UInt8.self, repeating: 0)
      }
      position += part.count
    }
    return count
  }

  func write(_ file: OpenFile, _ buffer: UnsafeRawBufferPointer, at offset: UInt64) throws(Failure) -> Int {
    let inode = try regular(file, writes: true)
    // Whole sectors, or nothing.
    let length = halfway == nil ? buffer.count : buffer.count / 2 & ~511
    if let halfway, length == 0 { throw halfway }
    unsafe put(UnsafeRawBufferPointer(rebasing: buffer[..<length]), at: offset, of: inode)
    // The length on disk follows the pages as they are written back: ext4 sets it after each run of them
    // (mpage_map_and_submit_extent in fs/ext4/inode.c), XFS when their I/O ends (xfs_setfilesize in fs/xfs/xfs_aops.c).
    let end = offset + UInt64(length)
    var part = offset
    while part < end {
      part = min(end, (part / Self.pageSize + 1) * Self.pageSize)
      if part > image[inode].size { make(.size(inode, part)) }
    }
    return length
  }

  /// Changes contents, by as much as is there as a whole.
  private func put(_ bytes: UnsafeRawBufferPointer, at offset: UInt64, of inode: Int) {
    var position = 0
    while position < bytes.count {
      let (page, start) = (offset + UInt64(position)).quotientAndRemainder(dividingBy: Self.pageSize)
      let atomicSize = atomicSize(of: page, in: inode)
      let count = min(bytes.count - position, Int(atomicSize - start % atomicSize))
      make(.data(inode, page: page, start: Int(start), unsafe Array(bytes[position..<position + count])))
      position += count
      if start + UInt64(count) == Self.pageSize || position == bytes.count { unsettle(page, of: inode) }
    }
  }

  func truncate(_ file: OpenFile, to size: Int64) throws(Failure) {
    let (inode, size) = (try regular(file, writes: true), UInt64(size))
    let old = image[inode].size
    if size == old { return }
    // The rest of the last page is cleared in memory and written back like other contents, before the journal has the
    // new length or without it (ext4_block_truncate_page in fs/ext4/inode.c, xfs_setattr_size in fs/xfs/xfs_iops.c). Of
    // a page that is a hole in memory there is nothing to clear, whatever the disk still has there.
    let (page, start) = size.quotientAndRemainder(dividingBy: Self.pageSize)
    let clears = size < old && start > 0 && image[inode].pages[page] != nil
    if clears {
      let zeros = [UInt8](repeating: 0, count: Int(min(old, (page + 1) * Self.pageSize) - size))
      unsafe zeros.withUnsafeBytes { unsafe put($0, at: size, of: inode) }
    }
    make(.size(inode, size, clears: clears))
  }

  func allocate(_ file: OpenFile, _ mode: AllocationMode, _ range: Range<UInt64>) throws(Failure) {
    let inode = try regular(file, writes: true)
    if mode.contains(.collapseRange) || mode.contains(.insertRange) { throw Failure(EOPNOTSUPP) }
    if mode.contains(.punchHole) || mode.contains(.zeroRange) {
      var position = range.lowerBound
      while position < range.upperBound {
        let (page, start) = position.quotientAndRemainder(dividingBy: Self.pageSize)
        let end = min(range.upperBound, (page + 1) * Self.pageSize)
        if start == 0, end == (page + 1) * Self.pageSize {
          make(.hole(inode, page: page))
        } else if image[inode].pages[page] != nil {
          make(.data(inode, page: page, start: Int(start), [UInt8](repeating: 0, count: Int(end - position))))
        }
        position = end
      }
    }
    if !mode.contains(.keepSize), range.upperBound > image[inode].size { make(.size(inode, range.upperBound)) }
  }

  /// `SEEK_SET`, `SEEK_DATA` and `SEEK_HOLE`.
  func seek(_ descriptor: CInt, to offset: Int64, _ origin: SeekOrigin?) throws(Failure) -> Int64 {
    let inode = image[files[descriptor]!.inode]
    func isData(_ position: Int64) -> Bool { inode.pages[UInt64(position) / Self.pageSize] != nil }
    var position = offset
    switch origin {
    case .start: break
    case .data, .hole:
      guard offset < inode.size else { throw Failure(ENXIO) }
      while position < inode.size, isData(position) != (origin == .data) {
        position = (position / Int64(Self.pageSize) + 1) * Int64(Self.pageSize)
      }
      if position >= inode.size {
        if origin == .data { throw Failure(ENXIO) }
        position = Int64(inode.size)
      }
    default: throw Failure(EINVAL)
    }
    move(descriptor, to: position)
    return position
  }
}
