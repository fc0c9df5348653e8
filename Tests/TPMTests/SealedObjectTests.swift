import TestVectors
import Testing

@testable import TPM

@Suite("Sealed objects") struct SealedObjectTests {
  /// The public area of a protected object with a digest of 0xA5, and a private area of `count` bytes.
  static func object(_ count: Int, isProtected: Bool = true) -> [UInt8] {
    Hex("002E 0008 000B 0000\(isProtected ? "00" : "04")52 0000 0010 0020").bytes
      + [UInt8](repeating: 0xA5, count: 32) + [UInt8(count >> 8), UInt8(count & 0xFF)]
      + [UInt8](repeating: 0x5A, count: count)
  }

  @Test(arguments: [true, false], [1, 160, 256, 974]) func roundTrip(isProtected: Bool, count: Int) throws {
    let bytes = Self.object(count, isProtected: isProtected)
    let object = try SealedObject(bytes)
    #expect(object.isProtected == isProtected)
    #expect(object.bytes == bytes)
    let (publicArea, privateArea) = try object.structures()
    #expect(try SealedObject.bytes(publicArea: publicArea, privateArea: privateArea) == bytes)
  }

  @Test func otherLengthsAreRefused() {
    let bytes = Self.object(160)
    for count in 0..<bytes.count {
      #expect(throws: TPMError.malformed) { _ = try SealedObject(Array(bytes.prefix(count))) }
    }
    #expect(throws: TPMError.malformed) { _ = try SealedObject(bytes + [0]) }
    #expect(throws: TPMError.malformed) { _ = try SealedObject(bytes + bytes) }
    for count in [0, 975, 2000, 65535] {
      #expect(throws: TPMError.malformed) { _ = try SealedObject(Self.object(count)) }
    }
    #expect(throws: TPMError.malformed) { _ = try SealedObject([UInt8](repeating: 0, count: 1 << 20)) }
  }

  /// Every bit but those of the digest and of the private area has one permitted value, or says that the object has no
  /// authorization.
  @Test func otherFormsAreRefused() throws {
    let bytes = Self.object(160)
    for bit in 0..<(bytes.count * 8) {
      let altered = bytes.flippingBit(bit)
      switch bit / 8 {
      case 8 where altered[8] == 0x04: #expect(try !SealedObject(altered).isProtected)
      case 0..<16, 48..<50: #expect(throws: TPMError.malformed, "bit \(bit)") { _ = try SealedObject(altered) }
      default: #expect(try SealedObject(altered).bytes == altered)
      }
    }
  }

  @Test func templates() throws {
    #expect(
      PublicArea.storageKey
        == Hex(
          """
          005A 0023 000B 00030472 0000 0006 0080 0043 0010 0003 0010
          0020 0000000000000000000000000000000000000000000000000000000000000000
          0020 0000000000000000000000000000000000000000000000000000000000000000
          """
        ).bytes)
    #expect(try PublicArea.isStorageKey(PublicArea.structure(PublicArea.storageKey)))
    #expect(try !PublicArea.isStorageKey(PublicArea.structure(PublicArea.sealed(isProtected: true))))
    // Not fixedTPM.
    #expect(try !PublicArea.isStorageKey(PublicArea.structure(PublicArea.storageKey.flippingBit(9 * 8 + 1))))
    let sealed = [true, false].map { PublicArea.sealed(isProtected: $0) }
    for template in sealed + [PublicArea.storageKey] {
      #expect(try PublicArea.bytes(of: PublicArea.structure(template)) == template)
    }
  }
}
