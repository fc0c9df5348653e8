import ProtectfsIO
import StoreFormat
import SystemPackage

/// A step of a rekey: the next ciphertext of a file under its new key.
package struct RekeyStep: Sendable {
  /// The ciphertext to write; empty if only holes were left.
  package fileprivate(set) var chunks: [RekeyBatch.Chunk] = []
  /// The ciphertext that each chunk replaces.
  fileprivate var replaced: [[UInt8]] = []
  /// The rekey before the step.
  fileprivate var start: PendingRekey?
  /// The boundary after the step; `nil` if all contents are then under the new key.
  package fileprivate(set) var boundary: UInt64?
  package init() {}

  /// Whether the step contains nothing because there was no room.
  package fileprivate(set) var isDeferred = false
  /// The total ciphertext of the chunks in bytes.
  package var count: Int { chunks.reduce(0) { $0 + $1.ciphertext.count } }

  /// Whether a record is one that the step begins with, and not one that it, or a later one, has led to.
  package func begins(at record: FileRecord) -> Bool {
    record.pending?.wrappedOldKey == start?.wrappedOldKey && record.pending?.boundary == start?.boundary
  }
}

// Rekeying: the next units are read and encrypted under the new key, put into the journal by the caller, then written.
extension FileContents {
  /// Whether what follows a boundary takes up to `room` bytes, holes included.
  package func isRekeyed(from boundary: UInt64, within room: Int) -> Bool {
    ciphertextEnd <= boundary * DataUnits.size + UInt64(room)
  }

  /// Reads the next units under the old key, up to `room` bytes in up to `mostChunks` chunks, and encrypts them under
  /// the new key. Skips holes of any size. Writes nothing.
  ///
  /// - Throws: `EIO` if the keys were wiped, or the error of pread(2).
  package func rekeyStep(
    of pending: PendingRekey, cipher: ContentsCipher, room: Int, mostChunks: Int
  ) throws(Errno) -> RekeyStep {
    var step = RekeyStep()
    step.start = pending
    let end = ciphertextEnd
    var position = pending.boundary * DataUnits.size
    var room = room
    while position < end, room >= Int(DataUnits.size), step.chunks.count + Self.mostRuns <= mostChunks {
      guard let data = try nextData(from: position, to: end) else {
        position = end
        break
      }
      let limit = data.lowerBound + UInt64(min(room, Self.longestPiece)) / DataUnits.size * DataUnits.size
      let piece = data.lowerBound..<min(data.upperBound, limit)
      try prepare(piece, pending, cipher, &step)
      position = piece.upperBound
      room -= Int(DataUnits.end(of: UInt64(piece.count)))
    }
    step.isDeferred = position == pending.boundary * DataUnits.size && position < end
    step.boundary = position >= end ? nil : position / DataUnits.size
    if let last = step.chunks.indices.last {
      step.chunks[last].nextBoundary = DataUnits.end(of: position) / DataUnits.size
    }
    return step
  }

  /// Writes a step. If that fails, ``undo(_:)`` restores the previous contents.
  ///
  /// A write removes set-ID bits and file capabilities (`file_remove_privs` in fs/inode.c). They are restored: here, in
  /// ``undo(_:)`` and in ``ContentsLayout/replay(_:in:)`` the caller keeps others from changing them.
  package func write(_ step: RekeyStep) throws(Errno) {
    try backing.descriptor.keepingPrivileges { () throws(Errno) in
      for chunk in step.chunks { try backing.descriptor.write(chunk.ciphertext, at: chunk.range.lowerBound) }
    }
  }

  /// Writes back what a step replaced.
  package func undo(_ step: RekeyStep) throws(Errno) {
    try backing.descriptor.keepingPrivileges { () throws(Errno) in
      for (chunk, replaced) in zip(step.chunks, step.replaced) {
        try backing.descriptor.write(replaced, at: chunk.range.lowerBound)
      }
    }
  }

  private static var longestPiece: Int { 1 << 20 }
  /// The maximum number of chunks in a piece: units with holes between them.
  private static var mostRuns: Int { longestPiece / Int(DataUnits.size) / 2 }

  private func nextData(from position: UInt64, to end: UInt64) throws(Errno) -> Range<UInt64>? {
    let start: UInt64
    do throws(Errno) { start = try backing.descriptor.seek(to: position, .data) } catch .noSuchAddressOrDevice {
      return nil
    }
    let first = DataUnits.start(of: start)
    guard first < end else { return nil }
    return first..<min(DataUnits.end(of: try backing.descriptor.seek(to: start, .hole)), end)
  }

  /// Adds the chunks of a piece of data: one for each run of units that were ever written.
  private func prepare(
    _ piece: Range<UInt64>, _ pending: PendingRekey, _ cipher: ContentsCipher, _ step: inout RekeyStep
  ) throws(Errno) {
    var old = try backing.descriptor.readAll(from: piece.lowerBound, limit: piece.count)
    guard old.count == piece.count else { throw .ioError }
    let first = piece.lowerBound / DataUnits.size
    for run in Self.runs(of: old) where try !add(Array(old[run]), at: first, run, pending, cipher, &step) {
      // One of them is not authentic, and opens under no key: it is left out, as a hole is.
      for start in stride(from: run.lowerBound, to: run.upperBound, by: Int(DataUnits.size)) {
        let unit = start..<min(start + Int(DataUnits.size), run.upperBound)
        var bytes = Array(old[unit])
        let isAuthentic = try unsafe bytes.withMutableBytes { (bytes) throws(Errno) in
          try unsafe cipher.rekey(bytes, firstUnit: first + UInt64(start) / DataUnits.size)
        }
        if !isAuthentic { old.replaceSubrange(unit, with: [UInt8](repeating: 0, count: unit.count)) }
      }
      for part in Self.runs(of: Array(old[run])) {
        let part = run.lowerBound + part.lowerBound..<run.lowerBound + part.upperBound
        _ = try add(Array(old[part]), at: first, part, pending, cipher, &step)
      }
    }
  }

  /// Adds a chunk of units that were ever written, of which the piece that begins with unit `first` has the bytes
  /// `run`. Returns false, and adds none, where one of them is not authentic.
  private func add(
    _ replaced: [UInt8], at first: UInt64, _ run: Range<Int>, _ pending: PendingRekey, _ cipher: ContentsCipher,
    _ step: inout RekeyStep
  ) throws(Errno) -> Bool {
    let firstUnit = first + UInt64(run.lowerBound) / DataUnits.size
    var ciphertext = replaced
    let isAuthentic = try unsafe ciphertext.withMutableBytes { (bytes) throws(Errno) in
      try unsafe cipher.rekey(bytes, firstUnit: firstUnit)
    }
    guard isAuthentic else { return false }
    let next = firstUnit + DataUnits.end(of: UInt64(run.count)) / DataUnits.size
    step.chunks.append(
      RekeyBatch.Chunk(
        wrappedOldKey: pending.wrappedOldKey, boundary: step.chunks.last?.nextBoundary ?? pending.boundary,
        firstUnit: firstUnit, nextBoundary: next, ciphertext: ciphertext))
    step.replaced.append(replaced)
    return true
  }

  /// The runs of written units. The last unit of a run may have been written in part.
  private static func runs(of bytes: [UInt8]) -> [Range<Int>] {
    var runs: [Range<Int>] = []
    var start: Int?
    unsafe bytes.withBytes { bytes in
      for position in stride(from: 0, to: bytes.count, by: Int(DataUnits.size)) {
        let end = min(position + Int(DataUnits.size), bytes.count)
        let written = unsafe DataUnits.writtenCount(UnsafeRawBufferPointer(rebasing: bytes[position..<end]))
        if written > 0, start == nil { start = position }
        if written < end - position, let first = start {
          runs.append(first..<position + written)
          start = nil
        }
      }
      if let first = start { runs.append(first..<bytes.count) }
    }
    return runs
  }
}
