import ProtectfsIO
import SystemPackage

/// Copies files: to a temporary name, with their holes and metadata, then reads the copy back past the page cache, and
/// only then gives it its name. At each moment that name has what it had before or the whole copy.
final class VerifiedCopy {
  private let (written, read) = (AlignedBuffer(count: 1 << 20), AlignedBuffer(count: 1 << 20))
  /// Told the bytes of each step of a copy; may end it.
  private let step: (Int) throws(CopyError) -> Void

  init(_ step: @escaping (Int) throws(CopyError) -> Void) {
    self.step = step
  }

  /// Copies an open file to a name in a directory.
  ///
  /// - Parameters:
  ///   - fileClass: the class of the copy; `nil` for what its directory gives it.
  ///   - inode: of the file that is replaced; `nil` when there must be none.
  /// - Returns: the inode number of the copy, and what it does not have.
  func copy(
    _ source: any SourceItem, _ metadata: FileMetadata, as name: PathName, in directory: SharedDescriptor,
    _ fileClass: FileClass?, replacing inode: UInt64?
  ) throws(CopyError) -> (inode: UInt64, omissions: [Omission]) {
    let temporary = TemporaryEntry(for: name, in: directory)
    let (copy, number) = try temporary.makeFile()
    let size = metadata.status.size
    // Before there is anything in it: contents of class A should never have been in another.
    try onTarget { () throws(Errno) in try fileClass?.assign(to: PathName(descriptor: copy.descriptor)) }
    let data = try copyContents(of: source, size, to: copy)
    try compare(copy, with: source, size, data)
    let omissions = try metadata.apply(to: copy)
    try onTarget { () throws(Errno) in try copy.descriptor.synchronize() }
    guard try metadata.isCurrent(source) else { throw .changedMeanwhile }
    try requireEnd(of: source, at: size)
    try temporary.takeName(replacing: inode)
    return (number, omissions)
  }

  /// Finds out that there is nothing behind what the length says.
  private func requireEnd(of source: any SourceItem, at size: UInt64) throws(CopyError) {
    let rest = unsafe part(of: read, 1)
    let count = try fromSource { () throws(Errno) in try unsafe source.read(into: rest, at: size) }
    guard count == 0 else { throw .longerThanSaid }
  }

  /// Copies what is no hole; returns where that is.
  private func copyContents(
    of source: any SourceItem, _ size: UInt64, to target: SharedDescriptor
  ) throws(CopyError) -> [Range<UInt64>] {
    var (found, position): ([Range<UInt64>], UInt64) = ([], 0)
    while let data = try fromSource({ () throws(Errno) in try source.data(from: position, before: size) }) {
      found.append(data)
      position = data.lowerBound
      while position < data.upperBound {
        let part = unsafe part(of: written, data.upperBound - position)
        try step(part.count)
        let count = try fromSource { () throws(Errno) in try unsafe source.read(into: part, at: position) }
        guard count == part.count else { throw .changedMeanwhile }
        try onTarget { () throws(Errno) in
          try unsafe target.descriptor.write(UnsafeRawBufferPointer(part), at: position)
        }
        position += UInt64(count)
      }
    }
    if position != size { try onTarget { () throws(Errno) in try target.descriptor.truncate(to: size) } }
    return found
  }

  // MARK: Reading back

  /// Whether a file can be read, and has the contents of another: not where a page is not authentic, say, or the disk
  /// is damaged.
  func isCopy(_ file: SharedDescriptor, of source: any SourceItem, _ size: UInt64) throws(CopyError) -> Bool {
    do throws(CopyError) {
      try compare(file, with: source, size, [0..<size])
      return true
    } catch {
      switch error {
      case .different, .target(.ioError): return false
      default: throw error
      }
    }
  }

  /// Finds out that a copy has the contents of its source.
  private func compare(
    _ copy: SharedDescriptor, with source: any SourceItem, _ size: UInt64, _ data: [Range<UInt64>]
  ) throws(CopyError) {
    let count = try onTarget { () throws(Errno) in
      try copy.descriptor.transferDirectly()
      return try copy.descriptor.status().size
    }
    guard count == size else { throw .different }
    var position: UInt64 = 0
    for range in data {
      try compareHole(position..<range.lowerBound, copy, with: source, size)
      try compare(range, copy, with: source, size)
      position = range.upperBound
    }
    try compareHole(position..<size, copy, with: source, size)
  }

  /// Where the source has a hole, the copy may have data: zeros, that is.
  private func compareHole(
    _ hole: Range<UInt64>, _ copy: SharedDescriptor, with source: any SourceItem, _ size: UInt64
  ) throws(CopyError) {
    var position = hole.lowerBound
    while let data = try onTarget({ () throws(Errno) in try copy.data(from: position, before: hole.upperBound) }) {
      try compare(data, copy, with: source, size)
      position = data.upperBound
    }
  }

  private func compare(
    _ range: Range<UInt64>, _ copy: SharedDescriptor, with source: any SourceItem, _ size: UInt64
  ) throws(CopyError) {
    // Whole pages, as transfers past the page cache may need.
    var position = range.lowerBound & ~4095
    while position < range.upperBound {
      try step(0)
      let back = unsafe part(of: read, (range.upperBound - position + 4095) & ~4095)
      let count = try onTarget { () throws(Errno) in try unsafe copy.descriptor.read(into: back, at: position) }
      let wanted = Int(min(UInt64(back.count), size - position))
      let original = unsafe part(of: written, UInt64(wanted))
      let got = try fromSource { () throws(Errno) in try unsafe source.read(into: original, at: position) }
      guard got == wanted else { throw .changedMeanwhile }
      guard count >= wanted else { throw .different }
      let isSame = unsafe Memory.isEqual(
        UnsafeRawBufferPointer(rebasing: back.prefix(wanted)), UnsafeRawBufferPointer(original))
      guard isSame else { throw .different }
      position += UInt64(back.count)
    }
  }

  private func part(of buffer: AlignedBuffer, _ count: UInt64) -> UnsafeMutableRawBufferPointer {
    unsafe UnsafeMutableRawBufferPointer(rebasing: buffer.bytes.prefix(Int(min(count, UInt64(buffer.bytes.count)))))
  }
}
