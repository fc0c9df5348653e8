import CLibcrypto
import Cryptography
import TestVectors
import Testing

@Suite("Secrets in memory") struct SecretBytesTests {
  @Test func startsAsZeros() {
    let secret = SecretBytes(count: 100)
    #expect(unsafe secret.withBytes { unsafe $0.allSatisfy { $0 == 0 } })
  }

  @Test func equality() {
    let cases: [([UInt8], [UInt8], Bool)] = [
      ([1, 2, 3], [1, 2, 3], true), ([1, 2, 3], [1, 2, 4], false), ([1, 2, 3], [1, 2], false), ([], [], true),
    ]
    for (first, second, expected) in cases {
      let isEqual = SecretBytes(first) == SecretBytes(second)
      #expect(isEqual == expected)
    }
    #expect(isEqualInConstantTime([], []))
    #expect(isEqualInConstantTime([1], [1]))
    #expect(!isEqualInConstantTime([1], [2]))
    #expect(!isEqualInConstantTime([1], [1, 1]))
  }

  @Test func parts() {
    let first = SecretBytes([1, 2])
    let both = SecretBytes(first, followedBy: SecretBytes([3]))
    #expect(both.exposed() == [1, 2, 3])
    #expect(both.prefix(2).exposed() == [1, 2])
    #expect(both.copy().exposed() == [1, 2, 3])
  }

  @Test func randomBytesDiffer() throws {
    #expect(try SecretBytes(randomCount: 32).exposed() != SecretBytes(randomCount: 32).exposed())
    #expect(try randomBytes(16) != randomBytes(16))
  }

  @Test func livesOnTheSecureHeap() {
    let secret = SecretBytes([1])
    #expect(unsafe secret.withBytes { unsafe CRYPTO_secure_allocated($0.baseAddress) } == 1)
  }

  /// A secret that is larger than the heap still works.
  @Test func fullHeapFallsBack() {
    var secret = SecretBytes(count: 5 << 20)
    unsafe secret.withMutableBytes { unsafe $0[5 << 20 - 1] = 7 }
    #expect(unsafe secret.withBytes { unsafe CRYPTO_secure_allocated($0.baseAddress) } == 0)
    #expect(unsafe secret.withBytes { unsafe $0[5 << 20 - 1] } == 7)
  }

  @Test func relock() {
    #expect(SecureHeap.relock() == (SecureHeap.warning == nil))
  }
}

@Suite("Tags of records") struct RecordAuthenticatorTests {
  @Test func labelAndBytesAreOneMessage() throws {
    let authenticator = try RecordAuthenticator(key: SecretBytes([UInt8](repeating: 3, count: 32)))
    #expect(try authenticator.code("ab", [0x63]) == authenticator.code("", Array("abc".utf8)))
    #expect(try authenticator.tag("ab", [0x63]) == Array(authenticator.code("abc", []).prefix(16)))
  }

  @Test func verification() throws {
    let authenticator = try RecordAuthenticator(key: SecretBytes([UInt8](repeating: 3, count: 32)))
    for count in 0..<300 {
      let bytes = [UInt8](repeating: UInt8(count % 256), count: count)
      let tag = try authenticator.tag("label\0", bytes)
      #expect(try authenticator.verify(tag, "label\0", bytes))
      #expect(try !authenticator.verify(tag.flippingBit(count % 128), "label\0", bytes))
      #expect(try !authenticator.verify(tag, "label", bytes))
      #expect(try !authenticator.verify(Array(tag.dropLast()), "label\0", bytes))
    }
  }

  @Test func wrongKeyLengthIsRefused() {
    #expect(throws: CryptographyError.invalidLength("a MAC key")) {
      _ = try RecordAuthenticator(key: SecretBytes(count: 31))
    }
  }

  @Test func digest() throws {
    // FIPS 180-4, "abc".
    #expect(
      try sha256(Array("abc".utf8))
        == Hex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad").bytes)
  }
}
