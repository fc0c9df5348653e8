import CLibcrypto
import Cryptography
import TestVectors
import Testing

@Suite("AES-SIV") struct NameCipherTests {
  struct Vector: Decodable, Sendable {
    let name: String
    let key: Hex
    let associatedData: Hex?
    let plain: Hex
    let sealed: Hex
  }

  private static func cipher(_ key: [UInt8]) throws -> NameCipher {
    try NameCipher(key: SecretBytes(key), strength: key.count == 32 ? .aes128 : .aes256)
  }

  @Test(arguments: try VectorFile.read("CryptographyTests/siv", as: Vector.self))
  func vector(_ vector: Vector) throws {
    let cipher = try Self.cipher(vector.key.bytes)
    let associatedData = vector.associatedData?.bytes
    #expect(try cipher.encrypt(vector.plain.bytes, associatedData: associatedData) == vector.sealed.bytes)
    #expect(try cipher.decrypt(vector.sealed.bytes, associatedData: associatedData) == vector.plain.bytes)
    // One bit changed, at most 256 of them; other associated data; another key.
    for bit in stride(from: 0, to: vector.sealed.bytes.count * 8, by: max(1, vector.sealed.bytes.count / 32)) {
      #expect(throws: CryptographyError.notAuthentic) {
        _ = try cipher.decrypt(vector.sealed.bytes.flippingBit(bit), associatedData: associatedData)
      }
    }
    #expect(throws: CryptographyError.notAuthentic) {
      _ = try cipher.decrypt(vector.sealed.bytes, associatedData: (associatedData ?? []) + [0])
    }
    let other = try Self.cipher(vector.key.bytes.flippingBit(0))
    #expect(throws: CryptographyError.notAuthentic) {
      _ = try other.decrypt(vector.sealed.bytes, associatedData: associatedData)
    }
  }

  @Test func emptyAssociatedDataDiffersFromNone() throws {
    let cipher = try Self.cipher([UInt8](repeating: 7, count: 64))
    #expect(try cipher.encrypt([1, 2, 3], associatedData: nil) != cipher.encrypt([1, 2, 3], associatedData: []))
  }

  @Test func tooShortIsRefused() throws {
    let cipher = try Self.cipher([UInt8](repeating: 7, count: 64))
    for count in 0..<16 {
      #expect(throws: CryptographyError.notAuthentic) {
        _ = try cipher.decrypt([UInt8](repeating: 0, count: count), associatedData: nil)
      }
    }
  }

  @Test func wrongKeyLengthIsRefused() {
    for count in [0, 32, 48, 63, 65] {
      #expect(throws: CryptographyError.invalidLength("a SIV key")) {
        _ = try NameCipher(key: SecretBytes(count: count))
      }
    }
  }

  /// One cipher, thousands of calls from several threads, a third of which decrypt bytes that are not authentic. Each
  /// result is that of libcrypto's own AES-SIV, keyed again for each message.
  @Test func contextsArePooled() async throws {
    let key = [UInt8](0..<64)
    let cipher = try Self.cipher(key)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for worker in 0..<4 {
        group.addTask {
          var generator = RepeatableGenerator(seed: UInt64(worker))
          for call in 0..<1500 {
            let text = generator.bytes(1 + call % 255)
            let directory = generator.bytes(16)
            let sealed = try cipher.encrypt(text, associatedData: directory)
            #expect(sealed == Self.sealWithLibcrypto(key, directory, text))
            #expect(throws: CryptographyError.notAuthentic) {
              _ = try cipher.decrypt(sealed.flippingBit(call % (sealed.count * 8)), associatedData: directory)
            }
            #expect(try cipher.decrypt(sealed, associatedData: directory) == text)
          }
        }
      }
      try await group.waitForAll()
    }
  }

  private static func sealWithLibcrypto(_ key: [UInt8], _ associatedData: [UInt8], _ text: [UInt8]) -> [UInt8] {
    let method = unsafe EVP_CIPHER_fetch(nil, "AES-256-SIV", nil)
    let context = unsafe EVP_CIPHER_CTX_new()
    defer {
      unsafe EVP_CIPHER_CTX_free(context)
      unsafe EVP_CIPHER_free(method)
    }
    var sealed = [UInt8](repeating: 0, count: text.count)
    var tag = [UInt8](repeating: 0, count: 16)
    var length: CInt = 0
    unsafe EVP_EncryptInit_ex(context, method, nil, key, nil)
    unsafe EVP_EncryptUpdate(context, nil, &length, associatedData, CInt(associatedData.count))
    unsafe EVP_EncryptUpdate(context, &sealed, &length, text, CInt(text.count))
    unsafe EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, &tag)
    return tag + sealed
  }
}
