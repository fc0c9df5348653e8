import Contents
import ProtectfsIO
import StoreFormat
import SystemPackage

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
  package func beginRekeyStep() { contentsLock.beginWriting() }

  /// The same, if operations that are under way end by a time of ``MonotonicClock``. Returns whether they did.
  package func beginRekeyStep(until nanoseconds: Int64) -> Bool { contentsLock.beginWriting(until: nanoseconds) }

  package func endRekeyStep() { contentsLock.endWriting() }

  /// Whether what is left of a rekey is done in one step of so many bytes.
  package func isRekeyed(within room: Int) -> Bool {
    contents.isRekeyed(from: record.pending?.boundary ?? 0, within: room)
  }

  /// The next step, of up to `room` bytes in up to `mostChunks` chunks; empty if no rekey is pending. Writes nothing,
  /// except to repair what a failure has left.
  ///
  /// - Throws: `EACCES` if the class does not allow it now, or the error of pread(2).
  package func prepareRekeyStep(room: Int, mostChunks: Int) throws(Errno) -> RekeyStep {
    let cipher = try cipher(for: .resize)
    try repair(cipher)
    guard let pending = record.pending else { return RekeyStep() }
    return try contents.rekeyStep(of: pending, cipher: cipher, room: room, mostChunks: mostChunks)
  }

  /// Writes a step. If that fails, ``undo(_:)`` restores the previous contents.
  package func write(_ step: RekeyStep) throws(Errno) {
    modificationTime.withLock { $0.beginRekey() }
    try contents.write(step)
  }

  /// Writes back what a step replaced.
  package func undo(_ step: RekeyStep) throws(Errno) { try contents.undo(step) }

  /// Adopts the record that is now on disk, which belongs to the same rekey or follows it. Until it is durable, each
  /// synchronisation of the file makes it so.
  package func moveRekey(to record: FileRecord) {
    protection.withLock { protection in
      protection.record = record
      protection.cipher = protection.cipher?.moved(to: record.pending?.boundary)
    }
    contents.backing.noteRecordChange()
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
    try contentsLock.write { () throws(Errno) in
      try repair(nil)
      switch try change(record, contents.length == 0) {
      case .rewrapped(let record):
        protection.withLock { $0.record = record }
        contents.backing.noteRecordChange()
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
    contents.backing.noteRecordChange()
  }

  /// Runs `body` while the file's key cannot change.
  package func keepingKey<Result>(_ body: () throws(Errno) -> Result) throws(Errno) -> Result {
    try contentsLock.read(body)
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
}
