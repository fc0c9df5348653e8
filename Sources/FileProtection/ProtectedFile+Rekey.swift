import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import SystemPackage

/// One step of a rekey: the next ciphertext of a file under its new key.
package struct RekeyStep: Sendable {
  /// What is to be written; nothing where only holes were left.
  package fileprivate(set) var chunks: [RekeyBatch.Chunk] = []
  /// What the chunks replace, one for each.
  fileprivate var replaced: [[UInt8]] = []
  /// The boundary afterwards; `nil` when all contents are under the new key.
  package fileprivate(set) var boundary: UInt64?
  package init() {}

  /// Whether the file has come no further, as there was no room.
  package fileprivate(set) var isPutOff = false
  /// How many bytes of ciphertext the chunks have.
  package var count: Int { chunks.reduce(0) { $0 + $1.ciphertext.count } }
}

/// What has become of a file's key.
package enum KeyChange: Sendable {
  /// It is the same one.
  case rewrapped(FileRecord)
  /// It is another one, of which the cipher is there.
  case replaced(FileRecord, ContentsCipher)
}

// Rekeying: a caller takes the contents lock alone, prepares a step, makes it durable elsewhere, writes it, and moves the
// record on. Readers and writers wait meanwhile, so that nobody sees a unit of which only a part is new.
extension ProtectedFile {
  /// Keeps readers, writers and changes of the record away until ``endRekeyStep()``, by the same thread.
  package func beginRekeyStep() { contents.beginWriting() }

  package func endRekeyStep() { contents.endWriting() }

  /// Reads the next units that are under the old key, up to `room` bytes of them in up to `mostChunks` chunks, and encrypts
  /// them under the new one. Holes are passed over, whatever their size. Writes nothing.
  ///
  /// - Throws: `EACCES` when the class does not allow it now, or what pread(2) fails with.
  package func prepareRekeyStep(room: Int, mostChunks: Int) throws(Errno) -> RekeyStep {
    let cipher = try cipher(for: .resize)
    try settleLength()
    var step = RekeyStep()
    guard let pending = record.pending else { return step }
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
    step.isPutOff = position == pending.boundary * DataUnits.size && position < end
    step.boundary = position >= end ? nil : position / DataUnits.size
    if let last = step.chunks.indices.last {
      step.chunks[last].nextBoundary = DataUnits.end(of: position) / DataUnits.size
    }
    return step
  }

  /// Writes a step. Where that fails, ``undo(_:)`` puts back what was there.
  ///
  /// A write takes set-ID bits and file capabilities away (`file_remove_privs` in fs/inode.c); those that the file has stay.
  package func write(_ step: RekeyStep) throws(Errno) {
    modificationTime.withLock { $0.beginRekey() }
    try descriptor.keepingPrivileges { () throws(Errno) in
      for chunk in step.chunks { try write(chunk.ciphertext, at: chunk.range.lowerBound) }
    }
  }

  /// Writes what a step replaced.
  package func undo(_ step: RekeyStep) throws(Errno) {
    try descriptor.keepingPrivileges { () throws(Errno) in
      for (chunk, replaced) in zip(step.chunks, step.replaced) { try write(replaced, at: chunk.range.lowerBound) }
    }
  }

  /// Goes on with the record that is on the disk now, of the same rekey or after it. Until it is durable, every
  /// synchronisation of the file sees to it.
  package func moveRekey(to record: FileRecord) {
    protection.withLock { protection in
      protection.record = record
      protection.cipher = protection.cipher?.moved(to: record.pending?.boundary)
    }
    recordChanges.wrappingAdd(1, ordering: .acquiringAndReleasing)
  }

  /// Whether ``abandonContents()`` was called.
  package var isAbandoned: Bool { protection.withLock { $0.isUnsettled } }

  /// What ``abandonContents()`` refused is as it was.
  package func resumeContents() { protection.withLock { $0.isUnsettled = false } }

  /// Nobody may read or write the file until ``resumeContents()``, or until the store is mounted anew.
  package func abandonContents() {
    protection.withLock { protection in
      protection.isUnsettled = true
      protection.cipher = nil
    }
  }

  /// Changes the record, and maybe the key, by `change`, which writes the record while nobody reads or writes. It is told
  /// whether the file is empty.
  package func changeKey(
    _ change: (FileRecord, _ isEmpty: Bool) throws(Errno) -> KeyChange
  ) throws(Errno) {
    try contents.write { () throws(Errno) in
      try settleLength()
      switch try change(record, length.load(ordering: .relaxed) == 0) {
      case .rewrapped(let record): protection.withLock { $0.record = record }
      case .replaced(let record, let cipher): replaceKey(record, cipher)
      }
    }
  }

  /// Goes on with a record that has another key; the contents lock is held alone. A lock that did not wait for that, as the store
  /// did not answer, has taken the key away already.
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

  /// Runs `body` while the file gets no other key.
  package func keepingKey<Result>(_ body: () throws(Errno) -> Result) throws(Errno) -> Result {
    try contents.read(body)
  }

  /// The file is at rest for now: its modification time is settled, one second later than the kernel's. Returns both, if a
  /// step was written since the last time.
  package func restAfterRekey() -> (kernel: TimeChange, backing: TimeChange)? {
    modificationTime.withLock { $0.rest() }
  }

  private static let longestPiece = 1 << 20
  /// How many chunks a piece may come to: units with holes between them.
  private static let mostRuns = longestPiece / Int(DataUnits.size) / 2

  private func nextData(from position: UInt64, to end: UInt64) throws(Errno) -> Range<UInt64>? {
    let start: UInt64
    do throws(Errno) { start = try descriptor.seek(to: position, .data) } catch .noSuchAddressOrDevice { return nil }
    let first = DataUnits.start(of: start)
    guard first < end else { return nil }
    return first..<min(DataUnits.end(of: try descriptor.seek(to: start, .hole)), end)
  }

  /// Adds the chunks of a piece of data: one for each run of units of which something was ever written.
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

  /// The runs of written units; the last unit of a run may have been written in part.
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
