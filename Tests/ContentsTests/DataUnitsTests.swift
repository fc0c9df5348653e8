import Cryptography
import StoreFormat
import SystemPackage
import TestVectors
import Testing

@testable import Contents

@Suite struct DataUnitsTests {
  @Test(arguments: [0, 1, 15, 16, 17, 4095, 4096, 4097, 8191, 8192] as [UInt64]) func arithmetic(_ offset: UInt64) {
    #expect(DataUnits.start(of: offset) == DataUnits.unit(of: offset) * 4096)
    #expect(DataUnits.start(of: offset)..<DataUnits.start(of: offset) + 4096 ~= offset)
    #expect(DataUnits.end(of: offset) == (offset + 4095) / 4096 * 4096)
    #expect(DataUnits.isAligned(offset) == (offset % 4096 == 0))
    #expect(DataUnits.blockEnd(of: offset) == (offset + 15) / 16 * 16)
  }

  /// What was written ends with the last block that is not zeros.
  @Test func writtenParts() {
    for (count, last, written) in [(4096, nil, 0), (4096, 0, 16), (4096, 15, 16), (4096, 16, 32), (32, 31, 32)] {
      var unit = [UInt8](repeating: 0, count: count)
      if let last { unit[last] = 1 }
      #expect(unsafe unit.withUnsafeBytes { unsafe DataUnits.writtenCount($0) } == written)
    }
  }
}

/// Two keys, while a rekey is pending.
@Suite struct ContentsCipherTests {
  private let old, new: ContentsCipher
  private let both: ContentsCipher

  init() throws {
    let oldKey = try FileKey()
    let newKey = try FileKey()
    var record = FileRecord(
      fileClass: .none, isExplicit: false, classKeyID: try #require(ClassKeyID(rawValue: 1)),
      wrappedKey: [UInt8](repeating: 0, count: 40))
    record.pending = PendingRekey(wrappedOldKey: try newKey.wrap(old: oldKey), boundary: 2)
    (old, new) = (ContentsCipher(try oldKey.contentsCipher()), ContentsCipher(try newKey.contentsCipher()))
    both = try ContentsLayout.units.cipher(newKey, record)
  }

  private func changed(
    _ bytes: [UInt8], _ body: (UnsafeMutableRawBufferPointer) throws(Errno) -> Void
  ) throws -> [UInt8] {
    var bytes = bytes
    try unsafe bytes.withUnsafeMutableBytes { try unsafe body($0) }
    return bytes
  }

  /// Ranges that end before the boundary, contain it, or begin behind it.
  @Test(arguments: [0, 1, 2, 3] as [UInt64]) func theBoundaryDividesTheKeys(firstUnit: UInt64) throws {
    var random = RepeatableGenerator(seed: firstUnit)
    let plaintext = random.bytes(2 * 4096 + 48)
    let ciphertext = try unsafe changed(plaintext) { (bytes) throws(Errno) in
      try unsafe both.encrypt(bytes, firstUnit: firstUnit)
    }
    for index in 0..<3 {
      let (unit, range) = (firstUnit + UInt64(index), index * 4096..<min((index + 1) * 4096, plaintext.count))
      let expected = try unsafe changed(Array(plaintext[range])) { (bytes) throws(Errno) in
        try unsafe (unit < 2 ? new : old).encrypt(bytes, firstUnit: unit)
      }
      #expect(Array(ciphertext[range]) == expected)
    }
    let decrypted = try unsafe changed(ciphertext) { (bytes) throws(Errno) in
      try unsafe both.decrypt(bytes, firstUnit: firstUnit)
    }
    #expect(decrypted == plaintext)
  }

  @Test func rekeying() throws {
    let plaintext = [UInt8](repeating: 7, count: 4096 + 32)
    let ciphertext = try unsafe changed(plaintext) { (bytes) throws(Errno) in
      try unsafe both.encrypt(bytes, firstUnit: 2)
      _ = try unsafe both.rekey(bytes, firstUnit: 2)
    }
    let decrypted = try unsafe changed(ciphertext) { (bytes) throws(Errno) in
      try unsafe both.moved(to: nil).decrypt(bytes, firstUnit: 2)
    }
    #expect(decrypted == plaintext)
  }

  /// All copies lose both keys, and a buffer that was decrypted for them is not left as plaintext.
  @Test func wipedKeysAreOfNoUse() throws {
    let moved = both.moved(to: 4)
    both.wipe()
    var bytes = [UInt8](repeating: 7, count: 32)
    for unit in [0, 5] as [UInt64] {
      #expect(throws: Errno.ioError) {
        try unsafe bytes.withUnsafeMutableBytes { try unsafe moved.encrypt($0, firstUnit: unit) }
      }
      #expect(throws: Errno.ioError) {
        try unsafe bytes.withUnsafeMutableBytes { try unsafe moved.decrypt($0, firstUnit: unit) }
      }
    }
    #expect(throws: Errno.ioError) {
      try unsafe bytes.withUnsafeMutableBytes { try unsafe moved.rekey($0, firstUnit: 5) }
    }
    #expect(bytes == [UInt8](repeating: 7, count: 32))
  }
}
