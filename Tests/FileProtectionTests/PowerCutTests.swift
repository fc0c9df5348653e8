import ProtectfsIO
import StoreFormat
import SystemPackage
import TestVectors
import Testing

@testable import FileProtection

/// Contents after a power cut, on a backing file system that writes data in place, gives a file its new length before
/// data that overwrites blocks it has, and orders newly allocated blocks before their length (ext4, data=ordered).
///
/// Since the last fsync(2), each byte is one that the file has had, or zero where there was nothing. Up to 31 bytes
/// behind a length to which the file was cut, if that is no multiple of 16, may be anything.
@Suite struct PowerCutTests {
  /// A file after one change.
  private struct Moment {
    let backing: [UInt8]
    let plaintext: [UInt8]
  }

  private static let unit = 4096
  private static let edges = [0, 5, 15, 16, 17, 4081, 4090, 4095, 4096, 4097, 8177, 8190, 8192, 8200, 12_288]

  @Test(arguments: 0..<20) func eachByteIsOldOrNew(seed: Int) throws {
    var random = RepeatableGenerator(seed: UInt64(seed))
    for _ in 0..<20 {
      let backing = try BackingFile()
      let file = try backing.open()
      var plaintext: [UInt8] = []
      for _ in 0..<Int.random(in: 0...4, using: &random) { try change(file, &plaintext, &random) }
      // Synchronised here.
      var history = [try Moment(backing: backing.bytes(), plaintext: plaintext)]
      var what = ["length \(plaintext.count)"]
      for _ in 0..<Int.random(in: 1...4, using: &random) {
        what.append(try change(file, &plaintext, &random))
        history.append(try Moment(backing: backing.bytes(), plaintext: plaintext))
      }
      for _ in 0..<8 {
        let image = disk(after: history, &random)
        guard !(1..<16).contains(image.count) else { continue }
        try backing.replace(with: image)
        check(try backing.open().read(0..<40_000), history, "seed \(seed): \(what)")
      }
    }
  }

  /// Makes one change to the file and to its model, and describes it.
  @discardableResult
  private func change(
    _ file: ProtectedFile, _ plaintext: inout [UInt8], _ random: inout RepeatableGenerator
  ) throws -> String {
    let position = Self.edges.randomElement(using: &random)!
    if Int.random(in: 0..<6, using: &random) == 0 {
      // Longer than any file of the backing file system: only after the last unit was completed does that fail.
      #expect(throws: Errno.self) { try file.truncate(to: 1 << 62) }
      return "truncate to 2^62, which fails"
    }
    if Int.random(in: 0..<5, using: &random) < 3 {
      let count = Int.random(in: 1...9000, using: &random)
      let bytes = random.bytes(count)
      try file.write(bytes, at: position)
      plaintext += [UInt8](repeating: 0, count: max(0, position + count - plaintext.count))
      plaintext.replaceSubrange(position..<position + count, with: bytes)
      return "write \(count) at \(position)"
    }
    try file.truncate(to: UInt64(position))
    plaintext = plaintext.prefix(position) + [UInt8](repeating: 0, count: max(0, position - plaintext.count))
    return "truncate to \(position)"
  }

  /// What the disk may hold: the length of one moment, and of each block a content that it has had, unless the block
  /// was cut off in between.
  private func disk(after history: [Moment], _ random: inout RepeatableGenerator) -> [UInt8] {
    let lengths = history.map(\.backing.count)
    let moment = Int.random(in: history.indices, using: &random)
    var length = lengths[moment]
    if moment > 0, length > lengths[moment - 1] {
      // Blocks are allocated one after another.
      let ends = stride(from: 0, to: length, by: Self.unit).filter { $0 >= lengths[moment - 1] }
      length = (ends + [length]).randomElement(using: &random)!
    }
    var image: [UInt8] = []
    for start in stride(from: 0, to: length, by: Self.unit) {
      let cutBefore = lengths[...moment].lastIndex { $0 <= start }
      let cutAfter = lengths[moment...].dropFirst().firstIndex { $0 <= start } ?? lengths.endIndex
      let version = Int.random(in: (cutBefore ?? 0)..<cutAfter, using: &random)
      var block = Array(history[version].backing.dropFirst(start).prefix(Self.unit))
      // What a cut has removed from the block is zeros.
      for cut in lengths[min(version, moment)...moment].dropFirst() where cut < start + block.count {
        block.removeLast(start + block.count - max(cut, start))
      }
      image += block + [UInt8](repeating: 0, count: Self.unit - block.count)
    }
    return Array(image.prefix(length))
  }

  private func check(_ found: [UInt8], _ history: [Moment], _ what: @autoclosure () -> String) {
    let states = history.map(\.plaintext)
    if states.contains(found) { return }
    let anything = zip(states, states.dropFirst()).filter { $1.count < $0.count && $1.count % 16 != 0 }
      .map { $1.count..<($1.count + 15) / 16 * 16 + 16 }
    let newest = states.last { $0.count >= found.count } ?? []
    let wrong = found.indices.first { position in
      if position < newest.count, newest[position] == found[position] { return false }
      let isKnown = states.contains { position < $0.count && $0[position] == found[position] }
      let isNothing = found[position] == 0 && states.contains { position >= $0.count }
      return !isKnown && !isNothing && !anything.contains { $0.contains(position) }
    }
    #expect(wrong == nil, "of \(found.count) bytes, lengths \(states.map(\.count)), \(what())")
  }
}

extension BackingFile {
  fileprivate func bytes() throws -> [UInt8] {
    let buffer = try UnsafeMutableRawBufferPointer.allocate(byteCount: Int(length), alignment: 16)
    defer { unsafe buffer.deallocate() }
    guard try unsafe descriptor.read(into: buffer, at: 0) == buffer.count else { throw Errno.ioError }
    return unsafe Array(buffer)
  }

  fileprivate func replace(with image: [UInt8]) throws {
    try descriptor.truncate(to: 0)
    try unsafe image.withUnsafeBytes { try unsafe descriptor.write($0, at: 0) }
  }
}
