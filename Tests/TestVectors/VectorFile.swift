import Cryptography
import Foundation

/// A file of test vectors: `{"vectors": [...]}`. scripts/check-vectors.py, which checks them all, describes their
/// contents.
package enum VectorFile {
  private struct Contents<Vector: Decodable>: Decodable {
    let vectors: [Vector]
  }

  /// The vectors in a file of a test target, such as `CryptographyTests/xts`.
  package static func read<Vector: Decodable>(_ path: String, as type: Vector.Type = Vector.self) throws -> [Vector] {
    let parts = path.split(separator: "/")
    let url = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .appendingPathComponent("\(parts[0])/Vectors/\(parts[1]).json")
    return try JSONDecoder().decode(Contents<Vector>.self, from: Data(contentsOf: url)).vectors
  }
}

/// Bytes, hexadecimal in JSON.
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
