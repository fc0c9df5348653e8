import Glibc
import ProtectfsIO
import SystemPackage

/// Why a file was not copied.
enum CopyError: Error, Equatable {
  /// The source cannot be read.
  case source(Errno)
  /// The copy cannot be made.
  case target(Errno)
  /// Somebody wrote to the source meanwhile.
  case changedMeanwhile
  /// Somebody else took the name, or the file that had it, meanwhile.
  case replacedMeanwhile
  /// What was read back is not what was written.
  case different
  /// The target has no room for the source's extended attributes.
  case attributesTooLarge
  /// Another copy of the same file is at work.
  case busy
  /// The process was told to end.
  case interrupted
}

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
  /// - Returns: the inode number of the copy.
  func copy(
    _ source: SharedDescriptor, _ metadata: FileMetadata, as name: PathName, in directory: SharedDescriptor,
    _ fileClass: FileClass?, replacing inode: UInt64?
  ) throws(CopyError) -> UInt64 {
    let (copy, temporary) = try copy(source, metadata, asideOf: name, in: directory, fileClass)
    guard try metadata.isCurrent(source) else { throw .changedMeanwhile }
    let number: UInt64
    do throws(Errno) { number = try copy.descriptor.status().inode } catch { throw .target(error) }
    try temporary.takeName(replacing: inode)
    return number
  }

  /// Copies an open file, and leaves the copy under the temporary name. Nobody else has the copy open.
  func copy(
    _ source: SharedDescriptor, _ metadata: FileMetadata, asideOf name: PathName, in directory: SharedDescriptor,
    _ fileClass: FileClass?
  ) throws(CopyError) -> (SharedDescriptor, TemporaryEntry) {
    let temporary = try TemporaryEntry(for: name, in: directory)
    let target = try temporary.makeFile()
    let size = metadata.status.size
    // Before there is anything in it: contents of class A should never have been in another.
    do throws(Errno) { try fileClass?.assign(to: PathName(descriptor: target.descriptor)) } catch {
      throw .target(error)
    }
    try copyContents(of: source, size, to: target)
    try compare(with: source, size, temporary.name, in: directory)
    try metadata.apply(to: target)
    do throws(Errno) { try target.descriptor.synchronize() } catch { throw .target(error) }
    return (target, temporary)
  }

  private func copyContents(of source: SharedDescriptor, _ size: UInt64, to target: SharedDescriptor) throws(CopyError)
  {
    var position: UInt64 = 0
    while let data = try fromSource({ () throws(Errno) in try source.data(from: position, before: size) }) {
      position = data.lowerBound
      while position < data.upperBound {
        let part = unsafe part(of: written, data.upperBound - position)
        try step(part.count)
        let count = try fromSource { () throws(Errno) in try unsafe source.descriptor.read(into: part, at: position) }
        guard count == part.count else { throw .changedMeanwhile }
        do throws(Errno) {
          try unsafe target.descriptor.write(UnsafeRawBufferPointer(part), at: position)
        } catch {
          throw .target(error)
        }
        position += UInt64(count)
      }
    }
    do throws(Errno) { try target.descriptor.truncate(to: size) } catch { throw .target(error) }
  }

  // MARK: Reading back

  /// Finds out that a file has the contents of another, which are those on the disk.
  func compare(
    with source: SharedDescriptor, _ size: UInt64, _ name: PathName, in directory: SharedDescriptor
  ) throws(CopyError) {
    let copy: SharedDescriptor
    let count: UInt64
    do throws(Errno) {
      copy = SharedDescriptor(try directory.descriptor.open(name, [.readOnly, .noFollow, .direct]))
      count = try copy.descriptor.status().size
    } catch {
      throw .target(error)
    }
    guard count == size else { throw .different }
    var position: UInt64 = 0
    while position < size {
      let first = try fromSource { () throws(Errno) in try source.data(from: position, before: size) }
      let second: Range<UInt64>?
      do throws(Errno) { second = try copy.data(from: position, before: size) } catch { throw .target(error) }
      // What is data in one of them is compared, though the other may have a hole there.
      let start = min(first?.lowerBound ?? size, second?.lowerBound ?? size)
      guard start < size else { return }
      let ends = [first, second].compactMap { $0 }.filter { $0.lowerBound == start }.map(\.upperBound)
      let end = ends.max() ?? size
      try compare(with: source, copy, start..<end, size)
      position = end
    }
  }

  private func compare(
    with source: SharedDescriptor, _ copy: SharedDescriptor, _ range: Range<UInt64>, _ size: UInt64
  ) throws(CopyError) {
    // Whole pages, as transfers past the page cache may need.
    var position = range.lowerBound & ~4095
    while position < range.upperBound {
      try step(0)
      let back = unsafe part(of: read, (range.upperBound - position + 4095) & ~4095)
      let count: Int
      do throws(Errno) { count = try unsafe copy.descriptor.read(into: back, at: position) } catch {
        throw .target(error)
      }
      let wanted = Int(min(UInt64(back.count), size - position))
      let original = unsafe part(of: written, UInt64(wanted))
      let got = try fromSource { () throws(Errno) in try unsafe source.descriptor.read(into: original, at: position) }
      guard got == wanted else { throw .changedMeanwhile }
      guard count >= wanted, unsafe memcmp(back.baseAddress!, original.baseAddress!, wanted) == 0 else {
        throw .different
      }
      position += UInt64(back.count)
    }
  }

  private func part(of buffer: AlignedBuffer, _ count: UInt64) -> UnsafeMutableRawBufferPointer {
    unsafe UnsafeMutableRawBufferPointer(rebasing: buffer.bytes.prefix(Int(min(count, UInt64(buffer.bytes.count)))))
  }

  private func fromSource<Result>(_ body: () throws(Errno) -> Result) throws(CopyError) -> Result {
    do throws(Errno) { return try body() } catch { throw .source(error) }
  }
}

extension SharedDescriptor {
  /// The next run of data at or behind a position; `nil` where there are only holes. Where holes cannot be told, all is
  /// data.
  fileprivate func data(from position: UInt64, before end: UInt64) throws(Errno) -> Range<UInt64>? {
    guard position < end else { return nil }
    do throws(Errno) {
      let start = try descriptor.seek(to: position, .data)
      guard start < end else { return nil }
      return start..<min(max(try descriptor.seek(to: start, .hole), start + 1), end)
    } catch {
      switch error {
      case .noSuchAddressOrDevice: return nil
      case .invalidArgument, .notSupported: return position..<end
      default: throw error
      }
    }
  }
}
