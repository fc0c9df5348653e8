import StoreFormat
import TestVectors
import Testing

@Suite("Batches of rekeys") struct RekeyBatchTests {
  struct Vector: Decodable, Sendable {
    let name: String
    let number: UInt64
    let chunks: [Chunk]
    let batch: Hex

    struct Chunk: Decodable, Sendable {
      let wrappedOldKey, ciphertext: Hex
      let boundary, firstUnit, nextBoundary: UInt64
    }
  }

  static func vectors() throws -> [Vector] { try VectorFile.read("StoreFormatTests/rekey-batches") }

  @Test(arguments: try vectors()) func batch(_ vector: Vector) throws {
    let batch = try RekeyBatch(parsing: vector.batch.bytes)
    var made = RekeyBatch(
      number: vector.number,
      chunks: vector.chunks.map {
        RekeyBatch.Chunk(
          wrappedOldKey: $0.wrappedOldKey.bytes, boundary: $0.boundary, firstUnit: $0.firstUnit,
          nextBoundary: $0.nextBoundary, ciphertext: $0.ciphertext.bytes)
      })
    made.tag = Array(vector.batch.bytes.suffix(16))
    #expect(batch == made)
    #expect(batch.bytes == vector.batch.bytes)
  }

  @Test(arguments: try vectors()) func everyOtherLengthIsRefused(_ vector: Vector) {
    let count = vector.batch.bytes.count
    for other in Array(0..<min(count, 200)) + [count - 1, count + 1] where other != count {
      let bytes = Array((vector.batch.bytes + [0]).prefix(other))
      #expect(throws: FormatError.self) { _ = try RekeyBatch(parsing: bytes) }
    }
  }

  /// One byte changed, and the field that the error names.
  @Test(
    arguments: [
      (0, 0, "magic"), (10, 0, "number"), (18, 0, "number of chunks"), (19, 0x20, "number of chunks"),
      (62, 9, "first unit"), (78, 0, "first unit"), (86, 15, "length of ciphertext"), (86, 0, "length of ciphertext"),
    ] as [(Int, UInt8, String)])
  func field(_ offset: Int, _ value: UInt8, _ field: String) throws {
    var bytes = try Self.vectors()[0].batch.bytes
    bytes[offset] = value
    #expect { _ = try RekeyBatch(parsing: bytes) } throws: { error in
      guard case FormatError.malformed(.rekeyBatch, field, _) = error else { return false }
      return true
    }
  }

  /// What a parser accepts is encoded to the same bytes.
  @Test func theParserIsExact() throws {
    var generator = RepeatableGenerator(seed: 9)
    let vectors = try Self.vectors()
    for _ in 0..<5000 {
      var bytes = vectors[Int.random(in: 0..<vectors.count, using: &generator)].batch.bytes
      bytes[Int.random(in: 0..<110, using: &generator)] = UInt8.random(in: 0...8, using: &generator)
      if let batch = try? RekeyBatch(parsing: bytes) { #expect(batch.bytes == bytes) }
    }
  }
}
