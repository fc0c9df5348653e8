import Cryptography
import Glibc
import ProtectfsIO
import StoreFormat
import SystemPackage
import TestVectors
import Testing

@testable import Contents

/// The bytes of backing files.
@Suite struct FileContentsTests {
  struct Vector: Decodable, Sendable {
    let name: String
    let fileKey, backingStart, backingDigest: Hex
    let length, backingLength: Int
  }

  /// Written at once, byte range by byte range, and after the file was given its length.
  @Test(arguments: try VectorFile.read("StoreFormatTests/contents", as: Vector.self), [Int.max, 1000, -1])
  func vector(_ vector: Vector, inPartsOf part: Int) throws {
    let plaintext = (0..<vector.length).map { UInt8($0 * $0 % 251) }
    let contents = try ContentsLayout.units.contents(of: .temporary(), backingLength: 0, writers: .sole)
    let cipher = ContentsCipher(try FileKey(SecretBytes(vector.fileKey.bytes)).contentsCipher())
    if part < 0 { try contents.resize(to: UInt64(vector.length), cipher: cipher, taking: nil) }
    let part = part < 0 ? Int.max : part
    var position = 0
    while position < vector.length {
      let end = position + min(part, vector.length - position)
      try contents.write(Array(plaintext[position..<end]), at: position, cipher)
      position = end
    }
    #expect(contents.length == UInt64(vector.length))
    let backing = try contents.backing.descriptor.readAll(limit: vector.backingLength + 1)
    #expect(backing.count == vector.backingLength)
    #expect(Array(backing.prefix(64)) == vector.backingStart.bytes)
    #expect(try sha256(backing) == vector.backingDigest.bytes)
  }

  /// The chunks of a rekey that was interrupted are written as far as the file still goes.
  @Test func replayDoesNotLengthenAFile() throws {
    let file = try Descriptor.temporary()
    try file.truncate(to: 5000)
    let chunks = (0..<3).map {
      RekeyBatch.Chunk(
        wrappedOldKey: [], boundary: $0, firstUnit: $0, nextBoundary: $0 + 1,
        ciphertext: [UInt8](repeating: UInt8($0 + 1), count: 4096))
    }
    try ContentsLayout.units.replay(chunks, in: file)
    let expected = [UInt8](repeating: 1, count: 4096) + [UInt8](repeating: 2, count: 5000 - 4096)
    #expect(try file.readAll(limit: 10_000) == expected)
  }
}

extension FileContents {
  /// Writes from a buffer with room behind the bytes.
  fileprivate func write(_ bytes: [UInt8], at offset: Int, _ cipher: ContentsCipher) throws {
    var buffer = bytes + [UInt8](repeating: 0, count: 32)
    try unsafe buffer.withMutableBytes { (buffer) throws(Errno) in
      try unsafe write(
        .init(rebasing: buffer[..<bytes.count]), at: UInt64(offset), cipher: cipher, keepingPart: false,
        whenFull: { false })
    }
  }
}

extension Descriptor {
  /// A file without a name (`O_TMPFILE`), removed with its last descriptor.
  static func temporary() throws -> Descriptor {
    try Descriptor.open("/tmp", OpenFlags(rawValue: 0o20200000 | O_RDWR), mode: 0o600)
  }
}
