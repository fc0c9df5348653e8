import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
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

/// A change of a file's key.
package enum KeyChange: Sendable {
  /// The key is the same.
  case rewrapped(FileRecord)
  /// The key is new; the cipher is included.
  case replaced(FileRecord, ContentsCipher)
}

// Rekeying. The caller takes the contents lock exclusively, prepares a step, makes it durable in the journal, writes
// it, and advances the record. Readers and writers wait meanwhile, so none sees a unit of which only a part is new.
extension ProtectedFile {
  /// Keeps out readers, writers and changes of the record until the same thread calls ``endRekeyStep()``.
  package func beginRekeyStep() { contents.beginWriting() }

  /// The same, if operations that are under way end by a time of ``MonotonicClock``. Returns whether they did.
  package func beginRekeyStep(until nanoseconds: Int64) -> Bool { contents.beginWriting(until: nanoseconds) }

  package func endRekeyStep() { contents.endWriting() }

  /// Whether what is left of a rekey is done in one step of so many bytes.
  package func isRekeyed(within room: Int) -> Bool {
    let end = DataUnits.blockEnd(of: length.load(ordering: .relaxed))
    return end <= (record.pending?.boundary ?? 0) * DataUnits.size + UInt64(room)
  }

  /// Reads the next units under the old key, up to `room` bytes in up to `mostChunks` chunks, and encrypts them under
  /// the new key. Skips holes of any size. Writes nothing.
  ///
  /// - Throws: `EACCES` if the class does not allow it now, or the error of pread(2).
  package func prepareRekeyStep(room: Int, mostChunks: Int) throws(Errno) -> RekeyStep {
    let cipher = try cipher(for: .resize)
    try repair(cipher)
    var step = RekeyStep()
    guard let pending = record.pending else { return step }
    step.start = pending
    let end = DataUnits.blockEnd(of: length.load(ordering: .relaxed))
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
  /// A write removes set-ID bits and file capabilities (`file_remove_privs` in fs/inode.c). They are restored.
  package func write(_ step: RekeyStep) throws(Errno) {
    modificationTime.withLock { $0.beginRekey() }
    try descriptor.keepingPrivileges { () throws(Errno) in
      for chunk in step.chunks { try write(chunk.ciphertext, at: chunk.range.lowerBound) }
    }
  }

  /// Writes back what a step replaced.
  package func undo(_ step: RekeyStep) throws(Errno) {
    try descriptor.keepingPrivileges { () throws(Errno) in
      for (chunk, replaced) in zip(step.chunks, step.replaced) { try write(replaced, at: chunk.range.lowerBound) }
    }
  }

  /// Adopts the record that is now on disk, which belongs to the same rekey or follows it. Until it is durable, each
  /// synchronisation of the file makes it so.
  package func moveRekey(to record: FileRecord) {
    protection.withLock { protection in
      protection.record = record
      protection.cipher = protection.cipher?.moved(to: record.pending?.boundary)
    }
    recordChanges.wrappingAdd(1, ordering: .acquiringAndReleasing)
  }

  /// Whether ``abandonContents()`` was called.
  package var isAbandoned: Bool { protection.withLock { $0.isAbandoned } }

  /// Permits again what ``abandonContents()`` refused.
  package func resumeContents() { protection.withLock { $0.isAbandoned = false } }

  /// Refuses all reads and writes of the file until ``resumeContents()`` or the next mount.
  package func abandonContents() {
    protection.withLock { protection in
      protection.isAbandoned = true
      protection.cipher = nil
    }
  }

  /// Changes the record and perhaps the key by `change`, which writes the record while there are no readers or writers.
  /// `isEmpty` says whether the file is empty.
  package func changeKey(
    _ change: (FileRecord, _ isEmpty: Bool) throws(Errno) -> KeyChange
  ) throws(Errno) {
    try contents.write { () throws(Errno) in
      try repair(nil)
      switch try change(record, length.load(ordering: .relaxed) == 0) {
      case .rewrapped(let record): protection.withLock { $0.record = record }
      case .replaced(let record, let cipher): replaceKey(record, cipher)
      }
    }
  }

  /// Adopts a record with a new key. The caller holds the contents lock exclusively. If the store did not respond, a
  /// lock may not have waited for it and has evicted the key already; then the new key is wiped too.
  package func replaceKey(_ record: FileRecord, _ cipher: ContentsCipher) {
    protection.withLock { protection in
      protection.record = record
      if case .denied = controller.access(for: .write, on: record.fileClass) {
        protection.cipher = nil
        cipher.wipe()
      } else {
        protection.cipher = cipher
      }
    }
    recordChanges.wrappingAdd(1, ordering: .acquiringAndReleasing)
  }

  /// Runs `body` while the file's key cannot change.
  package func keepingKey<Result>(_ body: () throws(Errno) -> Result) throws(Errno) -> Result {
    try contents.read(body)
  }

  /// Whether a rekey has written the file, and so moved its modification time, since
  /// ``restAfterRekey(isShifted:moved:)``.
  package var isRekeyed: Bool { modificationTime.withLock { $0.isRekeyed } }

  /// The time shift for a record that follows from a rekey: another one if it has written the file. `nil` if there is
  /// none left.
  package var nextTimeShift: TimeShift? {
    let last = record.timeShift
    return modificationTime.withLock { $0.isRekeyed ? TimeShift(after: last, of: $0.time) : last }
  }

  /// Ends a rekey's changes of the modification time. It becomes the kernel's, shifted by the record. Without a shift,
  /// it moves and `moved` is told.
  package func restAfterRekey(isShifted: Bool, moved: (_ from: TimeShift.Time, _ to: TimeShift.Time) -> Void) {
    timeChange.withLock { _ in
      let (last, time) = modificationTime.withLock { time in
        let last = time.time
        time.rest(isShifted: isShifted)
        return (last, time.time)
      }
      if time != last { moved(last, time) }
    }
  }

  private static let longestPiece = 1 << 20
  /// The maximum number of chunks in a piece: units with holes between them.
  private static let mostRuns = longestPiece / Int(DataUnits.size) / 2

  private func nextData(from position: UInt64, to end: UInt64) throws(Errno) -> Range<UInt64>? {
    let start: UInt64
    do throws(Errno) { start = try descriptor.seek(to: position, .data) } catch .noSuchAddressOrDevice { return nil }
    let first = DataUnits.start(of: start)
    guard first < end else { return nil }
    return first..<min(DataUnits.end(of: try descriptor.seek(to: start, .hole)), end)
  }

  /// Adds the chunks of a piece of data: one for each run of units that were ever written.
  private func prepare(
    _ piece: Range<UInt64>, _ pending: PendingRekey, _ cipher: ContentsCipher, _ step: inout RekeyStep
  ) throws(Errno) {
    var old = [UInt8](repeating: 0, count: piece.count)
    let received = try unsafe old.withMutableBytes { (bytes) throws(Errno) in
      try unsafe descriptor.read(into: bytes, at: piece.lowerBound)
    }
    guard received == piece.count else { throw .ioError }
    for run in Self.runs(of: old) {
      let firstUnit = (piece.lowerBound + UInt64(run.lowerBound)) / DataUnits.size
      let replaced = Array(old[run])
      var ciphertext = replaced
      try unsafe ciphertext.withMutableBytes { (bytes) throws(Errno) in
        do { try unsafe cipher.rekey(bytes, firstUnit: firstUnit) } catch { throw .ioError }
      }
      let next = firstUnit + DataUnits.end(of: UInt64(run.count)) / DataUnits.size
      step.chunks.append(
        RekeyBatch.Chunk(
          wrappedOldKey: pending.wrappedOldKey, boundary: step.chunks.last?.nextBoundary ?? pending.boundary,
          firstUnit: firstUnit, nextBoundary: next, ciphertext: ciphertext))
      step.replaced.append(replaced)
    }
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

  private func write(_ bytes: [UInt8], at offset: UInt64) throws(Errno) {
    try unsafe bytes.withBytes { (bytes) throws(Errno) in try unsafe descriptor.write(bytes, at: offset) }
  }
}
