import ProtectfsPolicy
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
      let id: UInt32
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
    #expect(record.classEntries.map(\.id.rawValue) == vector.classKeys.map(\.id))
    #expect(record.formerKeys.isEmpty)
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
      (66, 0x80, "creation time"), (67, 4, "class keys"), (67, 65, "number of class keys"),
      (68, 6, "class of a class key"), (69, 1, "key type"), (69, 2, "key type"), (74, 1, "wrapping"),
      (116, 0, "key type"), (121, 1, "wrapping"),
      (241, 2, "key type"), (194, 4, "wrapping"), (288, 3, "wrapping"),
      (383, 2, "number of former keys"), (384, 0, "number of protectors"), (384, 17, "number of protectors"),
      (401, 6, "type of a protector"), (402, 65, "length of a label"), (403, 0xff, "label"), (411, 13, "scrypt log N"),
      (411, 23, "scrypt log N"), (412, 7, "scrypt r"), (412, 33, "scrypt r"), (413, 0, "scrypt p"),
      (413, 5, "scrypt p"),
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
    (bytes[411], bytes[412]) = (20, 8)
    #expect(throws: Never.self) { _ = try KeybagRecord(parsing: bytes) }
    (bytes[411], bytes[412]) = (20, 9)
    #expect(throws: FormatError.malformed(record: .keybag, field: "scrypt memory", problem: "is more than 1 GiB")) {
      _ = try KeybagRecord(parsing: bytes)
    }
  }

  @Test func unknownVersionsAndFeatures() throws {
    var bytes = self.bytes
    for version in [1, 3] as [UInt8] {
      bytes[8] = version
      #expect(throws: FormatError.unsupportedVersion(record: .keybag, version: UInt16(version))) {
        _ = try KeybagRecord(parsing: bytes)
      }
    }
    for bit in 0..<64 {
      let feature = KeybagFeatures(rawValue: 1 << UInt64(bit))
      if feature == .authenticatedContents {
        // It has no field; the tag tells that it was changed.
        _ = try KeybagRecord(parsing: self.bytes.flippingBit(80))
      } else if KeybagFeatures.known.contains(feature) {
        // The vector has no such field.
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
      ("class keys", { $0.classEntries.swapAt(0, 1) }),
      ("identifier of a class key", { $0.classEntries[3].id = $0.classEntries[0].id }),
      ("identifier of a class key", { $0.formerKeys = [Self.former(1, .erased), Self.former(1, .rotated)] }),
      (
        "identifier of a class key",
        { record in
          record.formerKeys = [Self.former(record.classEntries[2].id.rawValue, .erased)]
        }
      ),
      ("former keys", { ($0.classEntries, $0.formerKeys, $0.protectors) = ([], [Self.former(1, .rotated)], []) }),
      ("former keys", { ($0.classEntries, $0.formerKeys, $0.protectors) = ([], [], []) }),
      (
        "seal",
        { record in
          (record.classEntries, record.formerKeys, record.protectors) = ([], [Self.former(1, .erased)], [])
          record.seal[3] = 1
        }
      ),
      ("number of former keys", { record in record.formerKeys = (1...257).map { Self.former($0, .rotated) } }),
      ("class keys", { $0.classEntries.remove(at: 0) }),
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
    var former = record
    former.formerKeys = (1...256).map { Self.former($0, .rotated) }
    #expect(try KeybagRecord(parsing: former.bytes) == former)
    var single = record
    single.protectors.removeLast()
    #expect(try KeybagRecord(parsing: single.bytes) == single)
  }

  private static func former(_ number: UInt32, _ end: KeybagRecord.FormerKey.End) -> KeybagRecord.FormerKey {
    KeybagRecord.FormerKey(id: ClassKeyID(rawValue: number)!, end: end, time: 1_700_000_000)
  }

  /// For any bytes, the parser returns or throws, and what it accepts is encoded to the same bytes.
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
