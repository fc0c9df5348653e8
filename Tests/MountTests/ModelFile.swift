import Glibc
import LinuxIO
import SystemPackage
import TestVectors

/// A file on the mount and what it should hold, changed together, one random operation after another.
///
/// After fsx (Apple and NeXT, 1991): what is read is compared with the model at every step, not only at the end.
struct ModelFile {
  static let longest = 300_000

  private let path: PathName
  private var file: OpenFile
  private(set) var model: [UInt8] = []
  private var random: RepeatableGenerator
  /// The last operations, for the report of a difference.
  private(set) var history: [String] = []

  init(_ path: PathName, seed: UInt64) throws(Errno) {
    self.path = path
    random = RepeatableGenerator(seed: seed)
    file = try OpenFile(path, O_RDWR | O_CREAT)
  }

  /// A difference between the file and the model.
  struct Difference: Error, CustomStringConvertible {
    let description: String
  }

  private static let edges = [0, 1, 15, 16, 17, 31, 4080, 4095, 4096, 4097, 4111, 4112, 8192, 131_072, 131_073]

  /// An offset, rather often at or near an edge of a block, a unit or a request.
  private mutating func offset(upTo limit: Int) -> Int {
    guard limit > 0 else { return 0 }
    switch Int.random(in: 0..<4, using: &random) {
    case 0: return min(limit, Self.edges.randomElement(using: &random)!)
    case 1:
      return min(limit, Int.random(in: 0...limit / 4096, using: &random) * 4096 + Int.random(in: 0..<2, using: &random))
    default: return Int.random(in: 0...limit, using: &random)
    }
  }

  private mutating func range() -> Range<Int> {
    let start = offset(upTo: Self.longest - 1)
    let count =
      Bool.random(using: &random) ? Int.random(in: 1...300, using: &random) : Int.random(in: 1...50_000, using: &random)
    return start..<min(start + count, Self.longest)
  }

  private mutating func grow(to length: Int) {
    if length > model.count { model += [UInt8](repeating: 0, count: length - model.count) }
  }

  private mutating func put(_ bytes: [UInt8], at offset: Int) {
    grow(to: offset + bytes.count)
    model.replaceSubrange(offset..<offset + bytes.count, with: bytes)
  }

  private mutating func note(_ text: String) {
    history.append(text)
    if history.count > 40 { history.removeFirst() }
  }

  mutating func step() throws {
    switch Int.random(in: 0..<100, using: &random) {
    case 0..<25: try write()
    case 25..<45: try read()
    case 45..<55: try truncate()
    case 55..<63: try punch([.punchHole, .keepSize], "punch")
    case 63..<68: try punch([.zeroRange, .keepSize], "zero")
    case 68..<73: try zeroAndGrow()
    case 73..<76: try allocate()
    case 76..<82: try copy()
    case 82..<88: try map()
    case 88..<91: try seek()
    case 91..<93: try reopen()
    case 93..<96: try writeOtherwise()
    case 96..<98: try file.synchronize()
    case 98: try dropAndReread()
    default: try expectLength()
    }
  }

  // MARK: Operations

  private mutating func write() throws {
    let range = range()
    note("write \(range)")
    let bytes = random.bytes(range.count)
    try file.write(bytes, at: range.lowerBound)
    put(bytes, at: range.lowerBound)
  }

  /// With O_DIRECT, O_SYNC or O_APPEND.
  private mutating func writeOtherwise() throws {
    let (name, flags) = [("direct", OpenFile.direct), ("sync", OpenFile.synchronous), ("append", O_APPEND)]
      .randomElement(using: &random)!
    let range = name == "append" ? model.count..<model.count + 1 + offset(upTo: 5000) : range()
    guard range.upperBound <= Self.longest else { return }
    note("\(name) write \(range)")
    let bytes = random.bytes(range.count)
    let other = try OpenFile(path, O_WRONLY | flags)
    if name == "append" { try other.append(bytes) } else { try other.write(bytes, at: range.lowerBound) }
    put(bytes, at: range.lowerBound)
  }

  private mutating func read() throws {
    let range = range()
    let isDirect = Int.random(in: 0..<5, using: &random) == 0
    note("\(isDirect ? "direct read" : "read") \(range)")
    let found = try (isDirect ? OpenFile(path, O_RDONLY | OpenFile.direct) : file).read(
      at: range.lowerBound, count: range.count)
    try expect(found, at: range)
  }

  private mutating func truncate() throws {
    let length = offset(upTo: Self.longest)
    let isByName = Bool.random(using: &random)
    note("truncate \(model.count) to \(length)")
    if isByName { try path.truncate(to: length) } else { try file.truncate(to: length) }
    if length < model.count { model.removeSubrange(length...) } else { grow(to: length) }
    try expectLength()
  }

  private mutating func punch(_ mode: AllocationMode, _ name: String) throws {
    let range = range()
    note("\(name) \(range)")
    try file.allocate(mode, at: range.lowerBound, count: range.count)
    clear(range.clamped(to: 0..<model.count))
    try expectLength()
  }

  private mutating func zeroAndGrow() throws {
    let range = range()
    note("zero and grow \(range)")
    try file.allocate([.zeroRange], at: range.lowerBound, count: range.count)
    grow(to: range.upperBound)
    clear(range)
    try expectLength()
  }

  private mutating func allocate() throws {
    let range = range()
    let keeps = Bool.random(using: &random)
    note("allocate \(keeps ? "beyond " : "")\(range)")
    try file.allocate(keeps ? [.keepSize] : [], at: range.lowerBound, count: range.count)
    if !keeps { grow(to: range.upperBound) }
    try expectLength()
  }

  private mutating func copy() throws {
    let source = range()
    let target = offset(upTo: Self.longest - source.count)
    // What overlaps is refused by the kernel.
    guard target + source.count <= source.lowerBound || target >= source.upperBound else { return }
    note("copy \(source) to \(target)")
    let count = try file.copyRange(from: source.lowerBound, to: file, at: target, count: source.count)
    let bytes = Array(model[source.clamped(to: 0..<model.count)])
    guard count == bytes.count else { throw difference("copied \(count) of \(bytes.count)") }
    if count > 0 { put(bytes, at: target) }
  }

  private mutating func map() throws {
    guard model.count > 0 else { return }
    let mapping = try Mapping(file, count: model.count)
    let range = range().clamped(to: 0..<model.count)
    guard !range.isEmpty else { return }
    note("mapping \(range)")
    try expect(mapping.read(at: range.lowerBound, count: range.count), at: range)
    let bytes = random.bytes(range.count)
    try mapping.write(bytes, at: range.lowerBound)
    put(bytes, at: range.lowerBound)
    if Bool.random(using: &random) { try mapping.synchronize() }
  }

  /// Data may be reported where there are zeros, but a hole never where there are none.
  private mutating func seek() throws {
    let start = offset(upTo: Self.longest)
    note("seek \(start)")
    guard start < model.count else {
      guard failure(of: { () throws(Errno) in _ = try file.seek(to: start, .hole) }) == .noSuchAddressOrDevice else {
        throw difference("a hole behind the end")
      }
      return
    }
    let hole = try file.seek(to: start, .hole)
    guard hole >= start, hole <= model.count else { throw difference("a hole at \(hole)") }
    let data: Int
    do throws(Errno) { data = try file.seek(to: start, .data) } catch {
      guard error == .noSuchAddressOrDevice else { throw error }
      data = model.count
    }
    if let index = model[start..<data].firstIndex(where: { $0 != 0 }) {
      throw difference("data at \(index) was passed over: from \(start), data at \(data)")
    }
  }

  private mutating func reopen() throws {
    note("reopen")
    file = try OpenFile(path, O_RDWR)
    try expectLength()
  }

  private mutating func dropAndReread() throws {
    note("drop caches")
    try file.synchronize()
    try dropCaches()
    try expectEverything()
  }

  // MARK: Comparing

  private mutating func clear(_ range: Range<Int>) {
    for index in range { model[index] = 0 }
  }

  private func expect(_ found: [UInt8], at range: Range<Int>) throws {
    let expected = model[range.clamped(to: 0..<model.count)]
    guard !found.elementsEqual(expected) else { return }
    guard found.count == expected.count else { throw difference("\(found.count) bytes, not \(expected.count)") }
    let index = zip(found, expected).enumerated().first { $1.0 != $1.1 }!.offset
    throw difference("at \(range.lowerBound + index): \(found[index]), not \(expected[expected.startIndex + index])")
  }

  private func expectLength() throws {
    let (length, open) = (try path.status().size, try file.status().size)
    guard length == UInt64(model.count), open == length else {
      throw difference("length \(length), \(open) when open, not \(model.count)")
    }
  }

  func expectEverything() throws {
    try expectLength()
    try expect(path.contents(), at: 0..<model.count)
  }

  private func difference(_ text: String) -> Difference {
    Difference(description: "\(text)\nafter \(history.joined(separator: "; "))")
  }
}
