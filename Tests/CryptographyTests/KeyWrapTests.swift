import CLibcrypto
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

  /// Keys of many lengths. Each result is that of libcrypto's own key wrap.
  @Test func wrappingIsThatOfLibcrypto() throws {
    var generator = RepeatableGenerator(seed: 5)
    for call in 0..<500 {
      let key = generator.bytes(32)
      let secret = generator.bytes(16 + call % 40 * 8)
      let wrapped = try KeyWrap.wrap(SecretBytes(secret), under: SecretBytes(key))
      #expect(wrapped == Self.wrapWithLibcrypto(key, secret))
      #expect(try KeyWrap.unwrap(wrapped, under: SecretBytes(key)).exposed() == secret)
      #expect(throws: CryptographyError.wrongKey) {
        _ = try KeyWrap.unwrap(wrapped.flippingBit(call % (wrapped.count * 8)), under: SecretBytes(key))
      }
    }
  }

  private static func wrapWithLibcrypto(_ key: [UInt8], _ secret: [UInt8]) -> [UInt8] {
    let method = unsafe EVP_CIPHER_fetch(nil, "AES-256-WRAP", nil)
    let context = unsafe EVP_CIPHER_CTX_new()
    defer {
      unsafe EVP_CIPHER_CTX_free(context)
      unsafe EVP_CIPHER_free(method)
    }
    var wrapped = [UInt8](repeating: 0, count: secret.count + 8)
    var length: CInt = 0
    unsafe EVP_EncryptInit_ex(context, method, nil, key, nil)
    unsafe EVP_EncryptUpdate(context, &wrapped, &length, secret, CInt(secret.count))
    return wrapped
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
