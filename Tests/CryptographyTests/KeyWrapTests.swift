import Cryptography
import TestVectors
import Testing

@Suite("Key wrap") struct KeyWrapTests {
  struct Vector: Decodable, Sendable {
    let name: String
    let key, secret, wrapped: Hex
  }

  @Test(arguments: try VectorFile.read("CryptographyTests/key-wrap", as: Vector.self))
  func vector(_ vector: Vector) throws {
    let key = SecretBytes(vector.key.bytes)
    #expect(try KeyWrap.wrap(SecretBytes(vector.secret.bytes), under: key) == vector.wrapped.bytes)
    let secret = try KeyWrap.unwrap(vector.wrapped.bytes, under: key)
    #expect(secret.exposed() == vector.secret.bytes)
    for bit in 0..<vector.wrapped.bytes.count * 8 {
      #expect(throws: CryptographyError.wrongKey) {
        _ = try KeyWrap.unwrap(vector.wrapped.bytes.flippingBit(bit), under: key)
      }
    }
    #expect(throws: CryptographyError.wrongKey) {
      _ = try KeyWrap.unwrap(vector.wrapped.bytes, under: SecretBytes(vector.key.bytes.flippingBit(100)))
    }
  }

  @Test func impossibleLengthsAreRefused() {
    let key = SecretBytes(count: 32)
    for count in [0, 8, 15, 33] {
      #expect(throws: CryptographyError.invalidLength("a key to be wrapped")) {
        _ = try KeyWrap.wrap(SecretBytes(count: count), under: key)
      }
    }
    for count in [0, 16, 39, 41] {
      #expect(throws: CryptographyError.invalidLength("a wrapped key")) {
        _ = try KeyWrap.unwrap([UInt8](repeating: 0, count: count), under: key)
      }
    }
    #expect(throws: CryptographyError.invalidLength("a key that wraps")) {
      _ = try KeyWrap.wrap(SecretBytes(count: 32), under: SecretBytes(count: 16))
    }
  }
}
