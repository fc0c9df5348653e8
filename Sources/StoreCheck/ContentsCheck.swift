import Contents
import ProtectfsIO
import StoreFormat
import Synchronization
import SystemPackage

/// Reads the contents of files, several at a time, and finds out what of them cannot be read.
final class ContentsCheck {
  /// A file, open for reading.
  struct File: Sendable {
    let place: Place
    let contents: any FileContents
    let cipher: ContentsCipher
    /// What the journal has of it: to be written when the store is mounted, and perhaps written already.
    let chunks: [RekeyBatch.Chunk]
  }

  /// What cannot be read of a file.
  struct Damage: Sendable {
    fileprivate(set) var first: Range<UInt64>
    /// How many bytes.
    fileprivate(set) var count: UInt64
    let error: Errno
  }

  /// Called with each file that has some damage.
  private let report: (Place, Damage) -> Void
  /// Called with the length of each file that was read, in bytes.
  private let countBytes: (UInt64) -> Void
  private var waiting: [File] = []
  /// So many files are open at most.
  private static let most = 64

  init(countBytes: @escaping (UInt64) -> Void, report: @escaping (Place, Damage) -> Void) {
    self.countBytes = countBytes
    self.report = report
  }

  /// Adds a file, and reads it by and by.
  func add(_ file: File) {
    waiting.append(file)
    if waiting.count >= Self.most { finish() }
  }

  /// Reads all files that were added.
  func finish() {
    let work = Work(files: waiting)
    waiting = []
    // Without more threads it takes longer.
    let threads = (1..<max(1, min(work.files.count, Process.processorCount))).compactMap { _ in
      try? Thread(starting: "contents", stackSize: 1 << 20, work.run)
    }
    work.run()
    for thread in threads { thread.join() }
    for file in work.files {
      countBytes(file.contents.length)
      file.cipher.wipe()
    }
    for (index, damage) in work.damaged.withLock({ $0 }).sorted(by: { $0.index < $1.index }) {
      report(work.files[index].place, damage)
    }
  }

  /// Files that several threads read.
  private final class Work: Sendable {
    let files: [File]
    let next = Atomic(0)
    let damaged = RankedMutex(.commandProgress, [(index: Int, Damage)]())

    init(files: [File]) { self.files = files }

    @Sendable func run() {
      let buffer = AlignedBuffer(count: ContentsCheck.piece + ContentsCheck.slack)
      while case let index = next.wrappingAdd(1, ordering: .relaxed).oldValue, index < files.count {
        let damage = ContentsCheck.damage(in: files[index], buffer)
        if let damage { damaged.withLock { $0.append((index, damage)) } }
      }
    }
  }

  /// So much is read at a time, in bytes, and what the buffer needs beside it.
  private static let piece = 1 << 20
  private static let slack = 12_288

  private static func damage(in file: File, _ buffer: AlignedBuffer) -> Damage? {
    let length = file.contents.length
    var damage: Damage?
    var offset: UInt64 = 0
    while offset < length {
      do throws(Errno) {
        // A hole is damage in a dense file.
        if !file.contents.isDense { offset = try file.contents.seek(to: offset, .data) }
        try read(file, at: offset, count: piece, buffer)
      } catch .noSuchAddressOrDevice {
        break
      } catch {
        for unit in stride(from: offset, to: min(offset + UInt64(piece), length), by: 4096) {
          do throws(Errno) { try read(file, at: unit, count: 4096, buffer) } catch {
            let end = min(unit + 4096, length)
            var known = damage ?? Damage(first: unit..<unit, count: 0, error: error)
            if known.first.upperBound == unit { known.first = known.first.lowerBound..<end }
            known.count += end - unit
            damage = known
          }
        }
      }
      offset += UInt64(piece)
    }
    return damage
  }

  private static func read(_ file: File, at offset: UInt64, count: Int, _ buffer: AlignedBuffer) throws(Errno) {
    _ = try unsafe file.contents.read(
      at: offset, count: count, into: buffer.bytes, cipher: file.cipher, movesAccessTime: false,
      overlay: file.chunks.isEmpty ? nil : { file.chunks })
  }
}
