import Cryptography
import ProtectfsIO
import StoreFormat
import SystemPackage
import TestVectors
import Testing

@testable import Contents

/// Contents in pages, against an array of bytes.
@Suite struct PageContentsTests {
  struct Vector: Decodable, Sendable {
    let name: String
    let fileKey, pages: Hex
    let length: Int
    let backingLength: UInt64
  }

  /// Files of the second implementation.
  @Test(arguments: try VectorFile.read("StoreFormatTests/page-contents", as: Vector.self))
  func vector(_ vector: Vector) throws {
    let plaintext = (0..<vector.length).map { UInt8($0 * $0 % 251) }
    let file = try Descriptor.temporary()
    try file.write(vector.pages.bytes)
    try file.truncate(to: vector.backingLength)
    let contents = try HeldPages(file, key: vector.fileKey.bytes)
    #expect(try contents.read(0..<vector.length + 1) == plaintext)
    for bit in [0, vector.pages.bytes.count * 8 - 1] {
      try file.write(vector.pages.bytes.flippingBit(bit))
      #expect(throws: Errno.notAuthentic) { try contents.read(0..<vector.length) }
    }
  }

  private enum Change: CaseIterable {
    case write, append, truncate, punch, zero, allocate, reopen, rekey
  }

  /// Offsets at the ends of pages and groups, and some others.
  private static func offset(_ length: Int, _ random: inout RepeatableGenerator) -> Int {
    if Bool.random(using: &random) { return Int.random(in: 0...length + 5000, using: &random) }
    let pages = [0, 1, 2, 126, 127, 128, 254]
    let edge = pages.randomElement(using: &random)! * 4096
    let end: Int = [0, 4064, length - edge].randomElement(using: &random)!
    return max(0, edge + end + Int.random(in: -40...40, using: &random))
  }

  @Test(arguments: 0..<6 as Range<UInt64>) func agreesWithAnArray(seed: UInt64) throws {
    var random = RepeatableGenerator(seed: seed)
    let run = try Run(key: random.bytes(32))
    for step in 0..<60 {
      let change = Change.allCases.randomElement(using: &random)!
      let offset = change == .append ? run.model.count : Self.offset(run.model.count, &random)
      let count = Int.random(in: 1...(Bool.random(using: &random) ? 100 : 300_000), using: &random)
      let range = min(offset, 1 << 20)..<min(offset + count, 1 << 20) + 1
      try run.make(change, range, &random)
      try #require(run.contents.contents.length == UInt64(run.model.count), "\(step): \(change) \(range)")
      let found = try run.contents.read(0..<run.model.count + 10)
      try #require(found == run.model, "\(step): \(change) \(range)")
      let part = min(Self.offset(run.model.count, &random), run.model.count)
      let end = min(part + 5000, run.model.count)
      #expect(try run.contents.read(part..<end) == Array(run.model[part..<end]))
      try run.contents.requireSeeksToMatch(run.model)
    }
    // Nobody has to believe what this object knows.
    try run.reopen()
    #expect(try run.contents.read(0..<run.model.count) == run.model)
    #expect(try run.contents.holes() == [], "what is behind the length is a hole")
  }

  /// A file, and the bytes that it is to have.
  private final class Run {
    let file: Descriptor
    var key: [UInt8]
    var contents: HeldPages
    var model: [UInt8] = []

    init(key: [UInt8]) throws {
      let file = try Descriptor.temporary()
      contents = try HeldPages(file, key: key)
      self.key = key
      self.file = file
    }

    func reopen() throws { contents = try HeldPages(file, key: key) }

    func make(_ change: Change, _ range: Range<Int>, _ random: inout RepeatableGenerator) throws {
      let backing = UInt64(range.lowerBound)..<UInt64(range.upperBound)
      switch change {
      case .write, .append:
        let bytes = random.bytes(range.count)
        try contents.write(bytes, at: range.lowerBound)
        model.grow(to: range.upperBound)
        model.replaceSubrange(range, with: bytes)
      case .truncate:
        try contents.contents.resize(to: backing.lowerBound, cipher: contents.cipher, taking: nil)
        model.grow(to: range.lowerBound)
        model.removeSubrange(range.lowerBound...)
      case .punch: try zero(range, [.punchHole, .keepSize])
      case .zero:
        model.grow(to: range.upperBound)
        try zero(range, [.zeroRange])
      case .allocate:
        try contents.contents.allocate([], backing, cipher: contents.cipher)
        model.grow(to: range.upperBound)
      case .reopen: try reopen()
      case .rekey:
        let new = random.bytes(32)
        try contents.rekey(from: key, to: new)
        key = new
        try reopen()
      }
    }

    private func zero(_ range: Range<Int>, _ mode: AllocationMode) throws {
      try contents.contents.allocate(
        mode, UInt64(range.lowerBound)..<UInt64(range.upperBound), cipher: contents.cipher)
      let part = range.clamped(to: 0..<model.count)
      model.replaceSubrange(part, with: [UInt8](repeating: 0, count: part.count))
    }
  }

  /// Each byte of the backing file is authenticated, but for holes.
  @Test func nothingIsChangedUnseen() throws {
    let file = try Descriptor.temporary()
    let contents = try HeldPages(file, key: [UInt8](repeating: 7, count: 32))
    let plaintext = RepeatableGenerator.bytes(3 * 4096 + 100, seed: 3)
    try contents.write(plaintext, at: 0)
    let backing = try file.readAll(limit: 1 << 20)
    let pages = 5 * 4096
    for position in stride(from: 0, to: pages, by: 501) {
      try file.write([backing[position] ^ 1], at: UInt64(position))
      #expect(throws: Errno.notAuthentic, "\(position)") { try contents.read(0..<plaintext.count) }
      try file.write([backing[position]], at: UInt64(position))
    }
    // Two pages exchanged, and one in the place of the ends page.
    for (first, second) in [(2, 3), (0, 2), (1, 2)] {
      let one = first * 4096..<first * 4096 + 4096
      let other = second * 4096..<second * 4096 + 4096
      try file.write(Array(backing[one]), at: UInt64(other.lowerBound))
      try file.write(Array(backing[other]), at: UInt64(one.lowerBound))
      #expect(throws: Errno.notAuthentic, "\(first), \(second)") { try contents.read(0..<plaintext.count) }
      try file.write(backing)
    }
    #expect(try contents.read(0..<plaintext.count) == plaintext)
  }

  /// A page that does not verify is no reason to refuse another.
  @Test func othersAreRead() throws {
    let file = try Descriptor.temporary()
    let contents = try HeldPages(file, key: [UInt8](repeating: 7, count: 32))
    let plaintext = RepeatableGenerator.bytes(4 * 4096, seed: 4)
    try contents.write(plaintext, at: 0)
    try file.write([0], at: 3 * 4096 + 17)
    #expect(throws: Errno.notAuthentic) { try contents.read(2 * 4096..<3 * 4096) }
    #expect(try contents.read(0..<2 * 4096) == Array(plaintext[..<8192]))
    #expect(try contents.read(3 * 4096..<4 * 4096) == Array(plaintext[12288...]))
  }

  /// Nor is it one to refuse a change of another, though the contents end there; written whole, it is whole again.
  @Test func othersAreWritten() throws {
    let key = [UInt8](repeating: 7, count: 32)
    let file = try Descriptor.temporary()
    let start = 4 * 4096
    var plaintext = RepeatableGenerator.bytes(start + 100, seed: 5)
    try HeldPages(file, key: key).write(plaintext, at: 0)
    let backing = try file.readAll(limit: 1 << 20)

    try file.write([backing[5 * 4096] ^ 1], at: 5 * 4096)
    var contents = try HeldPages(file, key: key)
    plaintext.replaceSubrange(4096..<8192, with: repeatElement(1, count: 4096))
    try contents.write(Array(plaintext[4096..<8192]), at: 4096)
    #expect(try contents.read(0..<start) == Array(plaintext[..<start]))
    #expect(throws: Errno.notAuthentic) { try contents.read(start..<start + 1) }
    #expect(throws: Errno.notAuthentic) { try contents.write([1], at: start + 50) }
    #expect(throws: Errno.notAuthentic) { try contents.write([1], at: start + 5000) }
    try contents.write(Array(plaintext[start...]), at: start)
    #expect(try HeldPages(file, key: key).read(0..<plaintext.count) == plaintext)

    // A hole where there should be none.
    try file.allocate([.punchHole, .keepSize], offset: 5 * 4096, length: 4096)
    contents = try HeldPages(file, key: key)
    contents.contents.expect(CleanContents(length: UInt64(plaintext.count), isDense: true))
    try contents.write([plaintext[0]], at: 0)
    #expect(throws: Errno.missingPage) { try contents.read(start..<start + 1) }
    #expect(throws: Errno.notAuthentic) { try contents.write([1], at: start + 5000) }
    try contents.write(Array(plaintext[start...]), at: start)
    #expect(try contents.read(0..<plaintext.count) == plaintext)

    // The ends of all pages but the last, which has none.
    try file.write([try file.readAll(limit: 1 << 20)[4096] ^ 1], at: 4096)
    contents = try HeldPages(file, key: key)
    plaintext[start + 50] ^= 1
    try contents.write([plaintext[start + 50]], at: start + 50)
    #expect(try contents.read(start..<start + 100) == Array(plaintext[start...]))
    #expect(throws: Errno.notAuthentic) { try contents.write([1], at: 4096) }
    #expect(throws: Errno.notAuthentic) { try contents.read(0..<4096) }
  }
}

extension [UInt8] {
  fileprivate mutating func grow(to count: Int) {
    if count > self.count { self += [UInt8](repeating: 0, count: count - self.count) }
  }
}

extension RepeatableGenerator {
  static func bytes(_ count: Int, seed: UInt64) -> [UInt8] {
    var generator = RepeatableGenerator(seed: seed)
    return generator.bytes(count)
  }
}
