import StoreFormat
import TestVectors
import Testing

@Suite("Identity of a store") struct StoreIDTests {
  @Test func text() throws {
    let id = try #require(StoreID(bytes: [UInt8](0..<16)))
    #expect(id.description == "00010203-0405-0607-0809-0a0b0c0d0e0f")
    #expect(StoreID(id.description) == id)
    #expect(StoreID(id.description.uppercased()) == id)
    for text in [
      "", "00010203-0405-0607-0809-0a0b0c0d0e0", "000102030405-0607-0809-0a0b0c0d0e0f-",
      "g" + id.description.dropFirst(),
    ] {
      #expect(StoreID(text) == nil)
    }
    #expect(StoreID(bytes: [1]) == nil)
  }
}

@Suite("Extended attributes") struct AttributeEncodingTests {
  struct Vector: Decodable, Sendable {
    let name, backingName: String
    let plainName, plainValue, backingValue: Hex
  }

  @Test(arguments: try VectorFile.read("StoreFormatTests/attributes", as: Vector.self))
  func vector(_ vector: Vector) throws {
    #expect(AttributeEncoding.isBackingName(Array(vector.backingName.utf8)))
    let (name, value) = try AttributeEncoding.parse(vector.backingValue.bytes)
    #expect(name.count == vector.plainName.bytes.count + 16)
    #expect(value.count == vector.plainValue.bytes.count + 16)
    #expect(AttributeEncoding.value(encryptedName: name, encryptedValue: value) == vector.backingValue.bytes)
    let least = 1 + name.count + 16
    for count in 0..<least {
      #expect(throws: FormatError.self) {
        _ = try AttributeEncoding.parse(Array(vector.backingValue.bytes.prefix(count)))
      }
    }
  }

  @Test func namesOfOthers() {
    for name in ["user.cprotect", "user.protectfs.x.", "user.protectfs.x.AAAA", "security.selinux"] {
      #expect(!AttributeEncoding.isBackingName(Array(name.utf8)))
    }
    #expect(AttributeEncoding.isBackingName(AttributeEncoding.backingName(hash: [UInt8](repeating: 1, count: 16))))
    #expect(throws: FormatError.self) { _ = try AttributeEncoding.parse([0] + [UInt8](repeating: 0, count: 40)) }
  }
}
