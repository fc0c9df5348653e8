/// The bytes of `.protectfs/rekey.0` and `.protectfs/rekey.1`: new ciphertext that is about to replace old. After a
/// crash, what was half written is written again.
///
/// The byte table is in Documentation/FORMAT.md.
package struct RekeyBatch: Sendable, Equatable {
  /// The first 8 bytes.
  package static let magic = Array("protkrek".utf8)
  /// The version that this module reads and writes.
  package static let version: UInt16 = 1
  /// Authenticated before the batch, to distinguish it from records under the same key.
  package static let tagLabel: StaticString = "protectfs rekey batch\0"
  /// The number of chunks.
  package static let chunkCount = 1...4096
  /// The maximum total of ciphertext in all chunks, in bytes.
  package static let mostCiphertext = 4 << 20
  /// The maximum length of a batch, in bytes.
  package static let longest = 38 + chunkCount.upperBound * Chunk.headSize + mostCiphertext

  /// Contiguous ciphertext of one file, and the boundaries in the file's record before and afterwards.
  package struct Chunk: Sendable, Equatable {
    static let headSize = PendingRekey.wrappedKeySize + 8 + 8 + 8 + 4

    /// Identifies the rekey: ``PendingRekey/wrappedOldKey``.
    package let wrappedOldKey: [UInt8]
    /// The boundary before. There are only holes between it and ``firstUnit``.
    package let boundary: UInt64
    /// The number of the first data unit of the ciphertext.
    package let firstUnit: UInt64
    /// The boundary afterwards. There are only holes between the end of the ciphertext and it.
    package var nextBoundary: UInt64
    /// Whole AES blocks under the new key.
    package let ciphertext: [UInt8]

    package init(
      wrappedOldKey: [UInt8], boundary: UInt64, firstUnit: UInt64, nextBoundary: UInt64, ciphertext: [UInt8]
    ) {
      self.wrappedOldKey = wrappedOldKey
      self.boundary = boundary
      self.firstUnit = firstUnit
      self.nextBoundary = nextBoundary
      self.ciphertext = ciphertext
    }

    /// The range of the ciphertext in the file, in bytes.
    package var range: Range<UInt64> { firstUnit * 4096..<firstUnit * 4096 + UInt64(ciphertext.count) }
  }

  /// Increases with each batch, also across restarts: the batch with the higher number is the later one.
  package var number: UInt64
  /// The chunks. Those of one file are adjacent and in order, and each continues at the boundary of the previous one.
  package var chunks: [Chunk]
  /// The first 16 bytes of HMAC-SHA256 over the label and ``bytesBeforeTag``.
  package var tag = [UInt8](repeating: 0, count: 16)

  /// A batch whose tag is still zeros.
  package init(number: UInt64, chunks: [Chunk]) {
    self.number = number
    self.chunks = chunks
  }

  /// Parses a batch. The caller checks the tag.
  package init(parsing bytes: [UInt8]) throws(FormatError) {
    var reader = ByteReader(bytes, record: .rekeyBatch)
    try reader.require(bytes.count <= Self.longest, "length", "is more than \(Self.longest) bytes")
    try reader.readBeginning(magic: Self.magic, version: Self.version)
    number = try reader.readInteger("number")
    try reader.require(number > 0, "number", "is 0")
    let count: UInt32 = try reader.readInteger("number of chunks")
    try reader.require(Self.chunkCount.contains(Int(count)), "number of chunks", "\(count) is not in 1...4096")
    chunks = []
    var total = 0
    for _ in 0..<count {
      let chunk = try reader.readChunk()
      total += chunk.ciphertext.count
      try reader.require(total <= Self.mostCiphertext, "ciphertext", "is more than 4 MiB")
      if let last = chunks.last, last.wrappedOldKey == chunk.wrappedOldKey {
        try reader.require(last.nextBoundary == chunk.boundary, "boundary", "is not the one before")
      }
      chunks.append(chunk)
    }
    tag = try reader.read(16, "tag")
    try reader.finish()
  }

  /// The bytes that the tag authenticates after the label.
  package var bytesBeforeTag: [UInt8] {
    var bytes = Self.magic
    bytes.reserveCapacity(38 + chunks.reduce(0) { $0 + Chunk.headSize + $1.ciphertext.count })
    bytes.append(integer: Self.version)
    bytes.append(integer: number)
    bytes.append(integer: UInt32(chunks.count))
    for chunk in chunks {
      bytes += chunk.wrappedOldKey
      bytes.append(integer: chunk.boundary)
      bytes.append(integer: chunk.firstUnit)
      bytes.append(integer: chunk.nextBoundary)
      bytes.append(integer: UInt32(chunk.ciphertext.count))
      bytes += chunk.ciphertext
    }
    return bytes
  }

  /// The batch as it is stored.
  package var bytes: [UInt8] { bytesBeforeTag + tag }
}

extension ByteReader {
  fileprivate mutating func readChunk() throws(FormatError) -> RekeyBatch.Chunk {
    let wrappedOldKey = try read(PendingRekey.wrappedKeySize, "wrapped old key")
    let boundary: UInt64 = try readInteger("boundary")
    let firstUnit: UInt64 = try readInteger("first unit")
    let nextBoundary: UInt64 = try readInteger("next boundary")
    let count: UInt32 = try readInteger("length of ciphertext")
    try require(count > 0 && count % 16 == 0, "length of ciphertext", "is not that of whole blocks")
    try require(nextBoundary <= PendingRekey.highestBoundary, "next boundary", "is past the longest file")
    try require(boundary <= firstUnit && firstUnit < nextBoundary, "first unit", "is not between the boundaries")
    let units = (UInt64(count) + 4095) / 4096
    try require(units <= nextBoundary - firstUnit, "next boundary", "is inside the ciphertext")
    return RekeyBatch.Chunk(
      wrappedOldKey: wrappedOldKey, boundary: boundary, firstUnit: firstUnit, nextBoundary: nextBoundary,
      ciphertext: try read(Int(count), "ciphertext"))
  }
}

extension [RekeyBatch] {
  /// The chunks, in order, that continue from the boundary in the record of a pending rekey.
  package func chunks(after pending: PendingRekey) -> [RekeyBatch.Chunk] {
    var boundary = pending.boundary
    var found: [RekeyBatch.Chunk] = []
    for batch in self {
      for chunk in batch.chunks where chunk.wrappedOldKey == pending.wrappedOldKey && chunk.boundary == boundary {
        found.append(chunk)
        boundary = chunk.nextBoundary
      }
    }
    return found
  }
}
