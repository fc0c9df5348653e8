import DataProtectionCore
import StoreFormat
import TestVectors
import Testing

@Suite("The keybag's bytes") struct KeybagRecordTests {
  struct Vector: Decodable, Sendable {
    let storeID, keybag: Hex
    let generation, creationTime: UInt64
    let defaultClass: UInt8
    let classKeys: [ClassKey]
    let protectors: [Protector]

    struct ClassKey: Decodable, Sendable {
      let `class`: UInt8
      let generation: UInt32
    }

    struct Protector: Decodable, Sendable {
      let id: Hex
      let type, label: String
      let salt: Hex?
    }
  }

  let vector: Vector
  let bytes: [UInt8]

  init() throws {
    vector = try VectorFile.read("StoreFormatTests/keybag")[0]
    bytes = vector.keybag.bytes
  }

  @Test func fields() throws {
    let record = try KeybagRecord(parsing: self.bytes)
    #expect(record.bytes == self.bytes)
    #expect(record.features.rawValue == 0)
    #expect(record.storeID.bytes == vector.storeID.bytes)
    #expect(record.generation == vector.generation)
    #expect(record.defaultClass.rawValue == vector.defaultClass)
    #expect(record.creationTime == vector.creationTime)
    #expect(record.classEntries.map(\.fileClass.rawValue) == vector.classKeys.map(\.class))
    #expect(record.classEntries.map(\.generation) == vector.classKeys.map(\.generation))
    #expect(record.classEntries.map { $0.publicKey != nil } == vector.classKeys.map { $0.class == 2 })
    #expect(record.protectors.map(\.id) == vector.protectors.map(\.id.bytes))
    #expect(record.protectors.map(\.label) == vector.protectors.map(\.label))
    guard case .passcode(let derivation) = record.protectors[0].method else {
      Issue.record("the first protector is a passcode")
      return
    }
    #expect(derivation.salt == vector.protectors[0].salt?.bytes)
  }

  @Test func everyOtherLengthIsRefused() {
    for count in 0..<self.bytes.count {
      #expect(throws: FormatError.self) { _ = try KeybagRecord(parsing: Array(self.bytes.prefix(count))) }
    }
    #expect(throws: FormatError.malformed(record: .keybag, field: "length", problem: "is 1 bytes too long")) {
      _ = try KeybagRecord(parsing: self.bytes + [0])
    }
    #expect(throws: FormatError.malformed(record: .keybag, field: "length", problem: "is more than 16384 bytes")) {
      _ = try KeybagRecord(parsing: self.bytes + [UInt8](repeating: 0, count: 16_384))
    }
  }

  /// One byte changed, and the field that the error names. Offsets are those of the vector.
  @Test(
    arguments: [
      (0, 0x50, "magic"), (34, 0, "generation"), (42, 4, "default class"), (42, 9, "default class"),
      (66, 0x80, "creation time"), (67, 4, "number of class keys"), (67, 65, "number of class keys"),
      (68, 6, "class of a class key"), (69, 1, "key type"), (70, 0, "generation of a class key"), (74, 1, "wrapping"),
      (116, 0, "key type"), (117, 0, "generation of a class key"), (121, 1, "wrapping"),
      (243, 1, "class keys"), (194, 4, "wrapping"), (288, 3, "wrapping"),
      (382, 0, "number of protectors"), (382, 17, "number of protectors"), (399, 6, "type of a protector"),
      (400, 65, "length of a label"), (401, 0xff, "label"), (409, 13, "scrypt log N"), (409, 23, "scrypt log N"),
      (410, 7, "scrypt r"), (410, 33, "scrypt r"), (411, 0, "scrypt p"), (411, 5, "scrypt p"),
    ] as [(Int, UInt8, String)])
  func field(_ offset: Int, _ value: UInt8, _ field: String) {
    var bytes = self.bytes
    bytes[offset] = value
    #expect { _ = try KeybagRecord(parsing: bytes) } throws: { error in
      guard case FormatError.malformed(.keybag, let name, _) = error else { return false }
      return name == field
    }
  }

  @Test func memoryIsBounded() {
    var bytes = self.bytes
    (bytes[409], bytes[410]) = (20, 8)
    #expect(throws: Never.self) { _ = try KeybagRecord(parsing: bytes) }
    (bytes[409], bytes[410]) = (20, 9)
    #expect(throws: FormatError.malformed(record: .keybag, field: "scrypt memory", problem: "is more than 1 GiB")) {
      _ = try KeybagRecord(parsing: bytes)
    }
  }

  @Test func unknownVersionsAndFeatures() {
    var bytes = self.bytes
    bytes[8] = 2
    #expect(throws: FormatError.unsupportedVersion(record: .keybag, version: 2)) {
      _ = try KeybagRecord(parsing: bytes)
    }
    for bit in 0..<64 {
      let feature = KeybagFeatures(rawValue: 1 << UInt64(bit))
      if feature == .rekeys {
        // It stands for records that there may be, and nothing in the keybag.
        let record = try? KeybagRecord(parsing: self.bytes.flippingBit(80 + bit))
        #expect(record?.allowsRekeys == true)
      } else if KeybagFeatures.known.contains(feature) {
        // The vector has nothing of the kind.
        #expect { _ = try KeybagRecord(parsing: self.bytes.flippingBit(80 + bit)) } throws: { error in
          if case FormatError.malformed = error { true } else { false }
        }
      } else {
        #expect(throws: FormatError.unknownFeatures(feature.rawValue)) {
          _ = try KeybagRecord(parsing: self.bytes.flippingBit(80 + bit))
        }
      }
    }
  }

  /// A change of order, of a count, or a class left out.
  @Test func setsAreCanonical() throws {
    let record = try KeybagRecord(parsing: self.bytes)
    let changes: [(String, (inout KeybagRecord) -> Void)] = [
      ("class keys", { $0.classEntries.swapAt(0, 1) }), ("class keys", { $0.classEntries.swapAt(2, 3) }),
      ("class keys", { $0.classEntries[3] = $0.classEntries[2] }), ("class keys", { $0.classEntries.remove(at: 0) }),
      ("class keys", { $0.classEntries.remove(at: 4) }), ("protectors", { $0.protectors.swapAt(0, 1) }),
      ("protectors", { $0.protectors[1].id = $0.protectors[0].id }),
      ("number of protectors", { $0.protectors.removeAll() }),
    ]
    for (field, change) in changes {
      var changed = record
      change(&changed)
      #expect { _ = try KeybagRecord(parsing: changed.bytes) } throws: { error in
        guard case FormatError.malformed(.keybag, field, _) = error else { return false }
        return true
      }
    }
    var single = record
    single.protectors.removeLast()
    #expect(try KeybagRecord(parsing: single.bytes) == single)
  }

  /// Whatever bytes come, the parser returns or throws, and what it accepts it writes back as it was.
  @Test func parserIsExact() {
    var generator = RepeatableGenerator(seed: 5)
    for _ in 0..<20_000 {
      var bytes = self.bytes
      for _ in 0..<Int.random(in: 1...3, using: &generator) {
        bytes[Int.random(in: 0..<bytes.count, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
      }
      if Bool.random(using: &generator) { bytes.removeLast(Int.random(in: 0..<bytes.count, using: &generator)) }
      if let record = try? KeybagRecord(parsing: bytes) { #expect(record.bytes == bytes) }
    }
  }
}
