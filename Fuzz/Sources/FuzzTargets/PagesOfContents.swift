import Contents
import Cryptography
import Glibc
import ProtectfsIO
import StoreFormat
import SystemPackage

/// Contents in pages: an input is calls of four bytes each. Some are an attacker's, on the backing file.
///
/// Until the first of those all is as in memory. After it, each byte that is read was written at its place once, or is
/// zero; or there is an error.
func fuzzPages(_ bytes: [UInt8]) {
  let pages = must("a file") { () throws in try FuzzedPages() }
  for start in stride(from: 0, to: bytes.count - 3, by: 4) {
    if !pages.call(bytes[start], bytes[start + 1], bytes[start + 2], bytes[start + 3]) { return }
  }
  pages.check(0..<UInt64.max)
}

private final class FuzzedPages {
  private static let pages: [UInt64] = [0, 1, 2, 60, 125, 126, 127, 128, 129, 253, 254, 255]
  private static let places: [UInt64] = [0, 1, 16, 2000, 4063, 4064, 4065, 4095]
  private static let counts: [UInt64] = [1, 31, 32, 4064, 4096, 4097, 12_288, 70_000]

  private let layout = ContentsLayout.pages(.unknown)
  private let file: Descriptor
  private let cipher: ContentsCipher
  private var contents: any FileContents
  /// What the contents are, before the first attack.
  private var expected: [UInt8] = []
  /// By place, the values from 1 to 7 that were ever written there, as bits.
  private var written: [UInt8] = []
  private var isAttacked = false
  private let buffer = AlignedBuffer(count: 2 << 20)

  init() throws {
    // Without a name, in memory (O_TMPFILE).
    file = try Descriptor.open("/dev/shm", OpenFlags(rawValue: 0o20000000 | O_DIRECTORY | O_RDWR), mode: 0o600)
    let key = try FileKey()
    let record = FileRecord(
      fileClass: .none, isExplicit: false, classKeyID: ClassKeyID(rawValue: 1)!,
      wrappedKey: [UInt8](repeating: 0, count: 40))
    cipher = try layout.cipher(key, record)
    contents = try Self.open(file, layout)
  }

  private static func open(_ file: borrowing Descriptor, _ layout: ContentsLayout) throws(Errno) -> any FileContents {
    try layout.contents(
      of: Descriptor.open(PathName(descriptor: file), [.readWrite]), backingLength: file.status().size, writers: .sole)
  }

  /// Makes a call, and looks at what is about its place. Returns false where the file has a length that no contents
  /// have.
  func call(_ call: UInt8, _ place: UInt8, _ count: UInt8, _ value: UInt8) -> Bool {
    let offset = Self.pages[Int(place) % Self.pages.count] * 4096 + Self.places[Int(count) % 8]
    let count = Self.counts[Int(count) / 8 % 8]
    let size = must("its status") { () throws(Errno) in try file.status() }.size
    switch call % 8 {
    case 0, 1: write(value % 7 + 1, offset, Int(count))
    case 2: resize(to: offset)
    case 3: punch(offset..<offset + count)
    case 4:
      do throws(Errno) {
        contents = try Self.open(file, layout)
      } catch {
        precondition(isAttacked, "\(error)")
        return false
      }
    case 5 where offset < size:
      attack { () throws(Errno) in
        let byte = try file.readAll(from: offset, limit: 1)
        try file.write([byte[0] ^ (value | 1)], at: offset)
      }
    case 6:
      attack { () throws(Errno) in
        try file.allocate([.punchHole, .keepSize], offset: offset / 4096 * 4096, length: 4096)
      }
    case 7:
      attack { () throws(Errno) in
        try file.truncate(to: value % 2 == 0 ? offset : layout.backingLength(for: offset))
      }
    default: break
    }
    check((offset > 9000 ? offset - 9000 : 0)..<offset + count + 9000)
    return true
  }

  private func write(_ value: UInt8, _ offset: UInt64, _ count: Int) {
    let end = Int(offset) + count
    if written.count < end { written += [UInt8](repeating: 0, count: end - written.count) }
    for index in Int(offset)..<end { written[index] |= 1 << value }
    var bytes = [UInt8](repeating: value, count: count + 32)
    attempt { () throws(Errno) in
      try unsafe bytes.withMutableBytes { (bytes) throws(Errno) in
        try unsafe contents.write(
          UnsafeMutableRawBufferPointer(rebasing: bytes[..<count]), at: offset, cipher: cipher, keepingPart: false,
          whenFull: { false })
      }
    }
    if isAttacked { return }
    if expected.count < end { expected += [UInt8](repeating: 0, count: end - expected.count) }
    for index in Int(offset)..<end { expected[index] = value }
  }

  private func resize(to length: UInt64) {
    attempt { () throws(Errno) in try contents.resize(to: length, cipher: cipher, taking: nil) }
    if isAttacked { return }
    let more = Int(length) - expected.count
    if more < 0 { expected.removeLast(-more) } else { expected += [UInt8](repeating: 0, count: more) }
  }

  private func punch(_ range: Range<UInt64>) {
    attempt { () throws(Errno) in try contents.allocate([.punchHole, .keepSize], range, cipher: cipher) }
    if isAttacked { return }
    for index in Int(range.lowerBound)..<max(Int(range.lowerBound), min(Int(range.upperBound), expected.count)) {
      expected[index] = 0
    }
  }

  /// Runs a call, which may fail after an attack.
  private func attempt(_ body: () throws(Errno) -> Void) {
    do throws(Errno) { try body() } catch { precondition(isAttacked, "\(error)") }
  }

  private func attack(_ body: () throws(Errno) -> Void) {
    isAttacked = true
    must("an attack", body)
  }

  /// Looks at a part of the contents, as far as they go; where it cannot be read, at each page.
  func check(_ range: Range<UInt64>) {
    let length = contents.length
    if !isAttacked { precondition(length == UInt64(expected.count), "the length") }
    let end = min(range.upperBound, length, 1 << 20 + 70_000)
    if look(range.lowerBound, end) { return }
    precondition(isAttacked, "all can be read")
    for start in stride(from: range.lowerBound / 4096 * 4096, to: end, by: 4096) {
      _ = look(start, min(start + 4096, end))
    }
  }

  private func look(_ start: UInt64, _ end: UInt64) -> Bool {
    guard start < end else { return true }
    do throws(Errno) {
      let bytes = try unsafe Array(
        contents.read(
          at: start, count: Int(end - start), into: buffer.bytes, cipher: cipher, movesAccessTime: false, overlay: nil))
      if !isAttacked { precondition(bytes.elementsEqual(expected[Int(start)..<Int(end)]), "what was written") }
      for (index, byte) in bytes.enumerated() where byte != 0 {
        let place = Int(start) + index
        precondition(byte < 8 && place < written.count && written[place] >> byte & 1 == 1, "no garbage")
      }
      return true
    } catch {
      return false
    }
  }
}
