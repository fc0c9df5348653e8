import TestVectors

/// Changes inputs of a corpus like libFuzzer, but without coverage.
struct Mutator {
  private let corpus: [[UInt8]]
  private let longest: Int
  private var generator = RepeatableGenerator(seed: 8)

  init(corpus: [[UInt8]], longest: Int) {
    self.corpus = corpus
    self.longest = longest
  }

  /// The next changed input.
  mutating func next() -> [UInt8] {
    var bytes = any()
    for _ in 0..<random(1...4) { change(&bytes) }
    return Array(bytes.prefix(longest))
  }

  private mutating func change(_ bytes: inout [UInt8]) {
    guard !bytes.isEmpty else {
      bytes = generator.bytes(random(1...8))
      return
    }
    let place = random(0...bytes.count - 1)
    let end = min(bytes.count, place + random(1...8))
    switch random(0...7) {
    case 0: bytes[place] ^= 1 << UInt8(random(0...7))
    case 1: bytes[place] = UInt8(truncatingIfNeeded: generator.next())
    case 2: for index in place..<end { bytes[index] = 0xFF }
    case 3: bytes[place] &+= Bool.random(using: &generator) ? 1 : 0xFF
    case 4: bytes.removeSubrange(place..<end)
    case 5: bytes.insert(contentsOf: generator.bytes(end - place), at: place)
    case 6: bytes.insert(contentsOf: bytes[place..<end], at: random(0...bytes.count))
    default: bytes.replaceSubrange(place..., with: any().dropFirst(place))
    }
  }

  private mutating func any() -> [UInt8] { corpus.isEmpty ? [] : corpus[random(0...corpus.count - 1)] }

  private mutating func random(_ bounds: ClosedRange<Int>) -> Int { Int.random(in: bounds, using: &generator) }
}
