import StoreFormat
import TestVectors
import Testing

@Suite("Names") struct NameEncodingTests {
  struct Vector: Decodable, Sendable {
    let name, backing: String
    let sidecar: String?
    let plain, sealed: Hex
  }

  struct LinkVector: Decodable, Sendable {
    let name, backing: String
    let plain: Hex
    /// For a target in a long symlink file.
    let token, targetFile: Hex?
  }

  /// Stands in for SHA-256, which is passed to this module.
  private static func digest(of vector: Vector) -> ([UInt8]) -> [UInt8] {
    { bytes in
      bytes == vector.sealed.bytes
        ? Base64URL.decode(Array(vector.backing.utf8.dropFirst())) ?? [] : [UInt8](repeating: 0, count: 32)
    }
  }

  @Test(arguments: try VectorFile.read("StoreFormatTests/names", as: Vector.self))
  func vector(_ vector: Vector) throws {
    let backing = NameEncoding.backingName(encrypted: vector.sealed.bytes, digest: Self.digest(of: vector))
    let name = Array(vector.backing.utf8)
    #expect(backing.bytes == name)
    #expect(name.count <= 255)
    guard let sidecar = vector.sidecar.map({ Array($0.utf8) }) else {
      #expect(backing == .direct(name))
      #expect(NameEncoding.parse(name) == .direct(encrypted: vector.sealed.bytes))
      return
    }
    #expect(backing == .hashed(name, sidecar: sidecar))
    #expect(NameEncoding.parse(name) == .hashed(sidecar: sidecar))
    #expect(NameEncoding.parse(sidecar) == .sidecar)
    #expect(NameEncoding.isSidecar(vector.sealed.bytes, of: name, digest: Self.digest(of: vector)))
    #expect(!NameEncoding.isSidecar(vector.sealed.bytes.flippingBit(5), of: name, digest: Self.digest(of: vector)))
    #expect(!NameEncoding.isSidecar(Array(vector.sealed.bytes.prefix(191)), of: name, digest: Self.digest(of: vector)))
  }

  @Test func foreignNamesAreUndecodable() {
    let sealed = [UInt8](repeating: 1, count: 17)
    let good = Base64URL.encode(sealed)
    #expect(NameEncoding.parse(good) == .direct(encrypted: sealed))
    let hashed = Array("~".utf8) + Base64URL.encode([UInt8](repeating: 9, count: 32))
    #expect(NameEncoding.parse(hashed) == .hashed(sidecar: hashed + Array(".name".utf8)))
    let foreign: [[UInt8]] = [
      [], Array(".protectfs".utf8), Array(".fuse_hidden0001".utf8), Array("lost+found".utf8), Array("~".utf8),
      Base64URL.encode([UInt8](repeating: 1, count: 16)), Base64URL.encode([UInt8](repeating: 1, count: 192)),
      good + [UInt8(ascii: "=")], good.dropLast() + [UInt8(ascii: "F")], hashed.dropLast(),
      hashed + [UInt8(ascii: "A")], hashed + Array(".nam".utf8), hashed + Array(".names".utf8),
      hashed.dropLast() + [UInt8(ascii: "B")], [0xff] + good,
    ]
    for name in foreign { #expect(NameEncoding.parse(name) == .undecodable) }
  }

  @Test(arguments: try VectorFile.read("StoreFormatTests/symbolic-links", as: LinkVector.self))
  func symbolicLink(_ vector: LinkVector) throws {
    let text = Array(vector.backing.utf8)
    if let token = vector.token {
      let long = LongTarget(token: token.bytes, count: vector.plain.bytes.count)
      #expect(long.text == text)
      #expect(LongTarget(text: text) == long)
      #expect(LongTarget.token(ofFile: long.fileName) == token.bytes)
      #expect(long.fileSize == vector.targetFile?.bytes.count)
      #expect(NameEncoding.decode(text) == nil && NameEncoding.targetCount(textCount: text.count) == nil)
      return
    }
    let sealed = try #require(NameEncoding.decode(text))
    #expect(LongTarget(text: text) == nil)
    #expect(sealed.count == vector.plain.bytes.count + NameEncoding.overhead)
    #expect(NameEncoding.encode(sealed) == text)
    #expect(NameEncoding.targetCount(textCount: text.count) == vector.plain.bytes.count)
    #expect(NameEncoding.decode(text + [UInt8(ascii: "!")]) == nil)
  }

  @Test func targetsThatAreTooLong() {
    #expect(Base64URL.encodedCount(NameEncoding.longestDirectTarget + NameEncoding.overhead) == 4095)
    #expect(NameEncoding.decode(Base64URL.encode([UInt8](repeating: 0, count: 3072))) == nil)
    #expect(NameEncoding.decode(Base64URL.encode([UInt8](repeating: 0, count: 16))) == nil)
    #expect(NameEncoding.targetCount(textCount: 0) == nil)
    #expect(NameEncoding.targetCount(textCount: 1025) == nil)
    #expect(NameEncoding.targetCount(textCount: .max - 2) == nil)
  }

  @Test func textsThatNameNoTargetFile() {
    let token = [UInt8](repeating: 0xa5, count: 16)
    func text(_ bytes: [UInt8], mark: Character = "~") -> [UInt8] { Array(String(mark).utf8) + Base64URL.encode(bytes) }
    #expect(LongTarget(text: text(token + [0xf0, 0x0b]))?.count == 3056)
    #expect(LongTarget(text: text(token + [0xff, 0x0f]))?.count == 4095)
    for length in [[0xef, 0x0b], [0x00, 0x10], [0, 0], [0xff, 0xff]] as [[UInt8]] {
      #expect(LongTarget(text: text(token + length)) == nil, "\(length)")
    }
    #expect(LongTarget(text: text(token + [0xff, 0x0f], mark: "-")) == nil)
    #expect(LongTarget(text: text(token + [0xff, 0x0f, 0])) == nil)
    #expect(LongTarget(text: text(token + [0xff])) == nil)
    #expect(LongTarget(text: text(token + [0xff, 0x0f]).dropLast() + [UInt8(ascii: "!")]) == nil)
    #expect(LongTarget.token(ofFile: Base64URL.encode(token + [0])) == nil)
  }
}

@Suite("Base 64") struct Base64URLTests {
  /// RFC 4648, section 10, without padding, and characters that distinguish the URL alphabet.
  @Test(arguments: [
    ("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE"),
    ("foobar", "Zm9vYmFy"), ("~~~", "fn5-"), ("???", "Pz8_"),
  ]) func vector(_ plain: String, _ text: String) {
    #expect(Base64URL.encode(Array(plain.utf8)) == Array(text.utf8))
    #expect(Base64URL.decode(Array(text.utf8)) == Array(plain.utf8))
    #expect(Base64URL.encodedCount(plain.utf8.count) == text.utf8.count)
    #expect(Base64URL.decodedCount(text.utf8.count) == plain.utf8.count)
  }

  @Test(arguments: ["Z", "Zh", "Zm9", "Zg==", "Zg=", "Zm9v\n", "Z g", "fn5+", "Pz8/", "Zm9vY", "\u{e9}g"])
  func refused(_ text: String) {
    #expect(Base64URL.decode(Array(text.utf8)) == nil)
  }
}
