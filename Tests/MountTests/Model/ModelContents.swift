/// The expected content of a file: pages of 4096 bytes, without those never written, so that a distant hole costs
/// nothing.
struct ModelContents {
  static let pageSize = 4096

  private(set) var count = 0
  private var pages: [Int: [UInt8]] = [:]

  /// The bytes of a range, up to the end of the file.
  func bytes(in range: Range<Int>) -> [UInt8] {
    let range = range.clamped(to: 0..<count)
    var bytes = [UInt8](repeating: 0, count: range.count)
    for (page, part) in Self.parts(of: range) {
      guard let stored = pages[page] else { continue }
      let start = page * Self.pageSize + part.lowerBound - range.lowerBound
      bytes.replaceSubrange(start..<start + part.count, with: stored[part])
    }
    return bytes
  }

  mutating func write(_ bytes: ArraySlice<UInt8>, at offset: Int) {
    guard !bytes.isEmpty else { return }
    let range = offset..<offset + bytes.count
    for (page, part) in Self.parts(of: range) {
      let start = bytes.startIndex + page * Self.pageSize + part.lowerBound - offset
      pages[page, default: Self.zeros].replaceSubrange(part, with: bytes[start..<start + part.count])
    }
    count = max(count, range.upperBound)
  }

  mutating func resize(to length: Int) {
    if length < count { clear(length..<count) }
    count = length
  }

  /// Makes the existing part of a range zeros.
  mutating func clear(_ range: Range<Int>) {
    let range = range.clamped(to: 0..<count)
    for page in pages.keys {
      let whole = page * Self.pageSize..<(page + 1) * Self.pageSize
      let part = range.clamped(to: whole)
      guard !part.isEmpty else { continue }
      if part == whole {
        pages[page] = nil
      } else {
        for index in part { pages[page]![index - whole.lowerBound] = 0 }
      }
    }
  }

  /// The first byte of a range that is not zero.
  func firstData(in range: Range<Int>) -> Int? {
    let range = range.clamped(to: 0..<count)
    for page in pages.keys.sorted() {
      let start = page * Self.pageSize
      let part = range.clamped(to: start..<start + Self.pageSize)
      if let index = part.first(where: { pages[page]![$0 - start] != 0 }) { return index }
    }
    return nil
  }

  private static let zeros = [UInt8](repeating: 0, count: pageSize)

  /// A range, page by page: the page and the part of it.
  private static func parts(of range: Range<Int>) -> [(page: Int, part: Range<Int>)] {
    guard !range.isEmpty else { return [] }
    return (range.lowerBound / pageSize...(range.upperBound - 1) / pageSize).map { page in
      let start = page * pageSize
      let part = range.clamped(to: start..<start + pageSize)
      return (page, part.lowerBound - start..<part.upperBound - start)
    }
  }
}

/// A modification time in nanoseconds since 1970, if it is known.
struct ModelTime {
  private let earliest: Int64
  private let latest: Int64

  static let unknown = ModelTime(from: .min, to: .max)

  init(from earliest: Int64, to latest: Int64) {
    (self.earliest, self.latest) = (earliest, latest)
  }

  init(exactly time: Int64) { self.init(from: time, to: time) }

  func contains(_ time: Int64) -> Bool { (earliest...latest).contains(time) }

  /// This time or a later one, for calls that may or may not count as a modification.
  func orLater(_ other: ModelTime) -> ModelTime {
    ModelTime(from: min(earliest, other.earliest), to: max(latest, other.latest))
  }

  var description: String { earliest == latest ? "\(earliest)" : "\(earliest)...\(latest)" }
}
