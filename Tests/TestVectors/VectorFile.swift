import Cryptography
import Foundation

/// A file of test vectors: `{"vectors": [...]}`. What is in one is said by scripts/check-vectors.py, which checks them all.
package enum VectorFile {
  private struct Contents<Vector: Decodable>: Decodable {
    let vectors: [Vector]
  }

  /// The vectors of a file of a test target, as `CryptographyTests/xts`.
  package static func read<Vector: Decodable>(_ path: String, as type: Vector.Type = Vector.self) throws -> [Vector] {
    let parts = path.split(separator: "/")
    let url = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .appendingPathComponent("\(parts[0])/Vectors/\(parts[1]).json")
    return try JSONDecoder().decode(Contents<Vector>.self, from: Data(contentsOf: url)).vectors
  }
}

/// Bytes, in JSON as hexadecimal digits.
package struct Hex: Decodable, Sendable, Equatable {
  package let bytes: [UInt8]

  package init(_ text: String) {
    let digits = text.compactMap(\.hexDigitValue)
    bytes = stride(from: 0, to: digits.count - 1, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
  }

  package init(from decoder: any Decoder) throws {
    self.init(try decoder.singleValueContainer().decode(String.self))
  }
}

/// A generator that gives the same numbers each time (SplitMix64), so that a failure can be seen again.
package struct RepeatableGenerator: RandomNumberGenerator {
  private var state: UInt64

  package init(seed: UInt64) {
    state = seed
  }

  package mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var value = state
    value = (value ^ (value >> 30)) &* 0xbf58_476d_1ce4_e5b9
    value = (value ^ (value >> 27)) &* 0x94d0_49bb_1331_11eb
    return value ^ (value >> 31)
  }

  /// So many bytes.
  package mutating func bytes(_ count: Int) -> [UInt8] {
    (0..<count).map { _ in UInt8(truncatingIfNeeded: next()) }
  }
}

extension [UInt8] {
  /// The bytes with one bit changed.
  package func flippingBit(_ bit: Int) -> [UInt8] {
    var bytes = self
    bytes[bit / 8] ^= 1 << (bit % 8)
    return bytes
  }
}

extension SecretBytes {
  /// The bytes, for comparisons in tests.
  package borrowing func exposed() -> [UInt8] { unsafe withBytes { unsafe Array($0) } }
}
