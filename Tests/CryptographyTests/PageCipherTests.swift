import ProtectfsIO
import TestVectors
import Testing

@testable import Cryptography

@Suite("AES-256-GCM") struct GCMContextTests {
  struct Vector: Decodable, Sendable {
    let name: String
    let key, nonce, associatedData, plain, ciphertext, tag: Hex
  }

  private static func decrypt(
    _ message: [UInt8], _ vector: Vector, tag: [UInt8], associatedData: [UInt8]? = nil
  ) throws -> [UInt8] {
    let context = try GCMContext(key: SecretBytes(vector.key.bytes))
    var (message, tag) = (message, tag)
    try unsafe message.withMutableBytes { (message) throws(CryptographyError) in
      try unsafe vector.nonce.bytes.withBytes { (nonce) throws(CryptographyError) in
        try unsafe tag.withMutableBytes { (tag) throws(CryptographyError) in
          try unsafe context.decrypt(
            message, nonce: nonce.baseAddress!, associatedData: associatedData ?? vector.associatedData.bytes,
            tag: tag.baseAddress!)
        }
      }
    }
    return message
  }

  @Test(arguments: try VectorFile.read("CryptographyTests/gcm", as: Vector.self))
  func vector(_ vector: Vector) throws {
    let context = try GCMContext(key: SecretBytes(vector.key.bytes))
    var (message, tag) = (vector.plain.bytes, [UInt8](repeating: 0, count: 16))
    try unsafe message.withMutableBytes { (message) throws(CryptographyError) in
      try unsafe vector.nonce.bytes.withBytes { (nonce) throws(CryptographyError) in
        try unsafe tag.withMutableBytes { (tag) throws(CryptographyError) in
          try unsafe context.encrypt(
            message, nonce: nonce.baseAddress!, associatedData: vector.associatedData.bytes, tag: tag.baseAddress!)
        }
      }
    }
    #expect(message == vector.ciphertext.bytes && tag == vector.tag.bytes)
    #expect(try Self.decrypt(message, vector, tag: tag) == vector.plain.bytes)
    // With one bit changed in each of them.
    #expect(throws: CryptographyError.notAuthentic) { try Self.decrypt(message, vector, tag: tag.flippingBit(127)) }
    if !message.isEmpty {
      #expect(throws: CryptographyError.notAuthentic) { try Self.decrypt(message.flippingBit(3), vector, tag: tag) }
    }
    #expect(throws: CryptographyError.notAuthentic) {
      try Self.decrypt(message, vector, tag: tag, associatedData: vector.associatedData.bytes + [0])
    }
  }
}

@Suite struct PageCipherTests {
  private let cipher: PageCipher
  private let key: [UInt8]
  private let plain: [UInt8]

  init() throws {
    var generator = RepeatableGenerator(seed: 1)
    key = generator.bytes(32)
    cipher = try PageCipher(key: SecretBytes(key))
    plain = (0..<3).flatMap { _ in generator.bytes(4064) + [UInt8](repeating: 0, count: 32) }
  }

  private static func kind(_ number: UInt64) -> PageCipher.Kind { number == 6 ? .ends : .data }

  private func encrypted(first: UInt64 = 5) throws -> [UInt8] {
    var pages = plain
    try unsafe pages.withMutableBytes { (pages) throws(CryptographyError) in
      try unsafe cipher.encrypt(pages, first: first, kind: Self.kind)
    }
    return pages
  }

  private static func decrypt(
    _ pages: [UInt8], first: UInt64 = 5, with cipher: PageCipher, kind: (UInt64) -> PageCipher.Kind = kind
  ) throws -> [UInt8] {
    var pages = pages
    try unsafe pages.withMutableBytes { (pages) throws(CryptographyError) in
      try unsafe cipher.decrypt(pages, first: first, kind: kind)
    }
    return pages
  }

  /// A second cipher has another epoch, and reads what the first has written.
  @Test func pagesOpenUnderTheirKey() throws {
    let pages = try encrypted()
    let other = try PageCipher(key: SecretBytes(key))
    #expect(try Self.decrypt(pages, with: cipher) == plain)
    #expect(try Self.decrypt(pages, with: other) == plain)
    let epochs = (0..<3).map { Array(pages[$0 * 4096 + 4076..<$0 * 4096 + 4080]) }
    #expect(Set(epochs).count == 1)
  }

  /// A bit changed anywhere, another number, kind or key: nothing of it opens, and nothing is left as plaintext.
  @Test func otherPagesDoNotOpen() throws {
    let pages = try encrypted()
    for bit in [0, 4063 * 8, 4064 * 8, 4076 * 8, 4080 * 8, 4095 * 8, 2 * 4096 * 8 + 5] {
      var changed = pages.flippingBit(bit)
      #expect(throws: CryptographyError.notAuthentic) {
        try unsafe changed.withMutableBytes { (pages) throws(CryptographyError) in
          try unsafe cipher.decrypt(pages, first: 5, kind: Self.kind)
        }
      }
      #expect(changed.allSatisfy { $0 == 0 })
    }
    #expect(throws: CryptographyError.notAuthentic) { try Self.decrypt(pages, first: 4, with: cipher) }
    #expect(throws: CryptographyError.notAuthentic) { try Self.decrypt(pages, with: cipher) { _ in .data } }
    let other = try PageCipher(key: SecretBytes(key.flippingBit(0)))
    #expect(throws: CryptographyError.notAuthentic) { try Self.decrypt(pages, with: other) }
    // Two versions of a page, one half each.
    let mixed = try pages[..<2048] + encrypted()[2048...]
    #expect(throws: CryptographyError.notAuthentic) { try Self.decrypt(Array(mixed), with: cipher) }
    #expect(throws: CryptographyError.notAuthentic) { try Self.decrypt(Array(pages.dropLast()), with: cipher) }
  }

  @Test func aPageOfZerosIsAHole() throws {
    var pages = try encrypted()
    pages.replaceSubrange(4096..<8192, with: [UInt8](repeating: 0, count: 4096))
    var expected = plain
    expected.replaceSubrange(4096..<8192, with: [UInt8](repeating: 0, count: 4096))
    #expect(try Self.decrypt(pages, with: cipher) == expected)
  }

  /// Each page has a nonce of its own.
  @Test func noncesDiffer() throws {
    var nonces: Set<[UInt8]> = []
    for _ in 0..<100 {
      let pages = try encrypted()
      for page in 0..<3 { nonces.insert(Array(pages[page * 4096 + 4064..<page * 4096 + 4076])) }
    }
    #expect(nonces.count == 300)
  }

  /// More epochs than contexts are kept for.
  @Test func manyEpochs() throws {
    let pages = try (0..<20).map { _ in
      let writer = try PageCipher(key: SecretBytes(key))
      var page = Array(plain[..<4096])
      try unsafe page.withMutableBytes { (page) throws(CryptographyError) in
        try unsafe writer.encrypt(page, first: 0) { _ in .data }
      }
      return page
    }
    for page in pages + pages { #expect(try Self.decrypt(page, first: 0, with: cipher) == Array(plain[..<4096])) }
  }

  @Test func nothingIsLeftOfAWipedKey() throws {
    let pages = try encrypted()
    cipher.wipe()
    #expect(throws: CryptographyError.self) { try encrypted() }
    #expect(throws: CryptographyError.self) { try Self.decrypt(pages, with: cipher) }
    #expect(throws: CryptographyError.invalidLength("a key of pages")) {
      _ = try PageCipher(key: SecretBytes(count: 31))
    }
  }
}
