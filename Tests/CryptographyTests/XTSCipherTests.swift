import Cryptography
import TestVectors
import Testing

@Suite("AES-256-XTS") struct XTSCipherTests {
  struct Vector: Decodable, Sendable {
    let name: String
    let key: Hex
    let firstUnit: UInt64
    let plain: Hex
    let ciphertext: Hex
  }

  static func encrypt(_ cipher: XTSCipher, _ bytes: [UInt8], _ unit: UInt64) throws -> [UInt8] {
    var bytes = bytes
    try unsafe bytes.withUnsafeMutableBytes { try unsafe cipher.encrypt($0, firstUnit: unit) }
    return bytes
  }

  static func decrypt(_ cipher: XTSCipher, _ bytes: [UInt8], _ unit: UInt64) throws -> [UInt8] {
    var bytes = bytes
    try unsafe bytes.withUnsafeMutableBytes { try unsafe cipher.decrypt($0, firstUnit: unit) }
    return bytes
  }

  @Test(arguments: try VectorFile.read("CryptographyTests/xts", as: Vector.self))
  func vector(_ vector: Vector) throws {
    let cipher = try XTSCipher(key: SecretBytes(vector.key.bytes))
    #expect(try Self.encrypt(cipher, vector.plain.bytes, vector.firstUnit) == vector.ciphertext.bytes)
    #expect(try Self.decrypt(cipher, vector.ciphertext.bytes, vector.firstUnit) == vector.plain.bytes)
    // The same with one bit changed, in another unit, and under another key.
    #expect(try Self.decrypt(cipher, vector.ciphertext.bytes.flippingBit(3), vector.firstUnit) != vector.plain.bytes)
    #expect(try Self.decrypt(cipher, vector.ciphertext.bytes, vector.firstUnit + 1) != vector.plain.bytes)
    let other = try XTSCipher(key: SecretBytes(vector.key.bytes.flippingBit(511)))
    #expect(try Self.decrypt(other, vector.ciphertext.bytes, vector.firstUnit) != vector.plain.bytes)
  }

  @Test func unitsAreIndependent() throws {
    var generator = RepeatableGenerator(seed: 1)
    let cipher = try XTSCipher(key: SecretBytes(generator.bytes(64)))
    let plain = generator.bytes(3 * 4096 + 160)
    let whole = try Self.encrypt(cipher, plain, 5)
    for unit in 0..<4 {
      let range = unit * 4096..<min(plain.count, (unit + 1) * 4096)
      #expect(try Self.encrypt(cipher, Array(plain[range]), UInt64(5 + unit)) == Array(whole[range]))
    }
  }

  @Test func resultIntoAnotherBuffer() throws {
    var generator = RepeatableGenerator(seed: 2)
    let cipher = try XTSCipher(key: SecretBytes(generator.bytes(64)))
    let plain = generator.bytes(4096 + 16)
    var target = [UInt8](repeating: 0, count: plain.count)
    try unsafe plain.withUnsafeBytes { plain in
      try unsafe target.withUnsafeMutableBytes { try unsafe cipher.encrypt(plain, into: $0, firstUnit: 0) }
    }
    #expect(try target == Self.encrypt(cipher, plain, 0))
  }

  /// A cipher whose key was wiped cannot be used, even if it has created contexts before.
  @Test func nothingIsLeftOfAWipedKey() throws {
    var generator = RepeatableGenerator(seed: 4)
    let cipher = try XTSCipher(key: SecretBytes(generator.bytes(64)))
    let plain = generator.bytes(4096)
    _ = try Self.encrypt(cipher, plain, 0)
    cipher.wipe()
    #expect(throws: CryptographyError.self) { try Self.encrypt(cipher, plain, 0) }
    var buffer = plain
    #expect(throws: CryptographyError.self) {
      try unsafe buffer.withUnsafeMutableBytes { try unsafe cipher.decrypt($0, firstUnit: 0) }
    }
    #expect(buffer == plain)
  }

  @Test func wrongKeyLengthIsRefused() {
    for count in [0, 32, 63, 65] {
      #expect(throws: CryptographyError.invalidLength("an XTS key")) {
        _ = try XTSCipher(key: SecretBytes(count: count))
      }
    }
  }

  /// Pooled contexts, used by several threads at once, give the results of a new context.
  @Test func contextsArePooled() async throws {
    var generator = RepeatableGenerator(seed: 3)
    let key = generator.bytes(64)
    let plain = generator.bytes(4096 + 32)
    let shared = try XTSCipher(key: SecretBytes(key))
    try await withThrowingTaskGroup(of: Void.self) { group in
      for worker in 0..<4 {
        group.addTask {
          for call in 0..<2000 {
            let unit = UInt64(worker * 10_000 + call)
            let sealed = try Self.encrypt(shared, plain, unit)
            if call % 100 == 0 {
              let fresh = try XTSCipher(key: SecretBytes(key))
              #expect(try Self.encrypt(fresh, plain, unit) == sealed)
            }
            #expect(try Self.decrypt(shared, sealed, unit) == plain)
          }
        }
      }
      try await group.waitForAll()
    }
  }
}
