import FileProtection
import ProtectfsIO
import StoreFormat
import Synchronization
import SystemPackage

// The modification time that users see of a file, and that of its backing file, which a rekey has shifted. A record
// that cannot be read shifts nothing: times can be seen and set whatever else is wrong with a file.
extension BackingTree {
  /// What users see of a regular file's modification time. The record is read if the time may be a shifted one.
  package func shownTime(of node: Node, _ status: Status) -> TimeShift.Time {
    let time = status.modificationTime
    if let file = node.file, file.isRekeyed || options.writers == .sole { return file.shown(time) }
    guard TimeShift.isPossible(at: time), let record = try? currentRecord(of: node) else { return time }
    return record.shown(time)
  }

  /// The time to set on a backing file for users to see `change`. A rekey that is writing the file sets it at its end.
  package func backingTime(
    for change: TimeChange, of node: Node, _ descriptor: borrowing Descriptor
  ) -> TimeChange {
    guard let time = change.time, node.isRegular else { return change }
    if let file = node.file, file.isRekeyed { return .leave }
    guard let shift = timeShift(of: node, descriptor) else { return change }
    return TimeChange(shift.backing(time))
  }

  /// Gives the record of a file a time shift if it is about to get a modification time from before it was made. It may
  /// have come in the place of another with the same name, length and time, as when an archive is unpacked again: a
  /// backup that compares these has the contents of the other, and would copy the record alone. Where the backing file
  /// system does not say when a file was made, any time counts that is older than what the kernel may have to tell of a
  /// write.
  package func shiftOldTime(_ change: TimeChange, of node: Node) {
    let known = node.identity.birthSeconds
    let birth = known > 0 ? known : Int64(WallClock.seconds) - 3600
    guard let time = change.time, time.seconds < birth, node.isRegular, options.writers.mayWrite,
      keptTimes.load(ordering: .relaxed) != .coarse, let record = try? currentRecord(of: node), mayShift(record)
    else { return }
    do throws(Errno) {
      try withOpenFile(node, for: .rewrapTo, writing: false) { (file) throws(Errno) in
        try keyChanges.read { () throws(Errno) in
          try file.changeKey { (record, _) throws(Errno) in
            guard mayShift(record), !file.isRekeyed, keepsShiftedTimes(tryingWith: file) else {
              return .rewrapped(record)
            }
            var record = record
            record.timeShift = TimeShift(of: record.wrappedKey, at: time, before: birth)
            record = try tagged(record)
            try replaceRecord(of: file, node, by: record)
            return .rewrapped(record)
          }
        }
      }
    } catch {
      log.debug("a file has no time shift", metadata: ["inode": "\(node.identity.inode)", "error": "\(error)"])
    }
  }

  private func mayShift(_ record: FileRecord) -> Bool { record.timeShift == nil && record.pending == nil }

  /// The time shift for a record that follows from a rekey; `nil` if there is none left, or the store keeps no such
  /// times.
  func nextTimeShift(of file: ProtectedFile) -> TimeShift? {
    file.isRekeyed && !keepsShiftedTimes(tryingWith: file) ? nil : file.nextTimeShift
  }

  /// Whether the backing file system keeps nanoseconds: ext4 in inodes of 128 bytes does not, others keep some. Tried
  /// once, with a file whose time moves anyway.
  private func keepsShiftedTimes(tryingWith file: ProtectedFile) -> Bool {
    let known = keptTimes.load(ordering: .relaxed)
    guard known == .unknown else { return known == .whole }
    do throws(Errno) {
      file.movedModificationTime()
      let value = try file.withDescriptor { (descriptor) throws(Errno) in
        // A program may set the time just then.
        for _ in 0..<3 {
          let time = TimeShift.trial(try descriptor.status().modificationTime)
          try descriptor.setTimes(access: .leave, modification: TimeChange(time))
          if try descriptor.status().modificationTime == time { return true }
        }
        return false
      }
      keptTimes.store(value ? .whole : .coarse, ordering: .relaxed)
      return value
    } catch {
      return false
    }
  }

  private func timeShift(of node: Node, _ descriptor: borrowing Descriptor) -> TimeShift? {
    if let file = recordSource.openFile(node) { return file.record.timeShift }
    guard let bytes = try? recordBytes(of: descriptor) else { return nil }
    return try? verifiedFileRecord(bytes, of: node, descriptor).timeShift
  }
}

/// What a backing file system keeps of times.
enum KeptTimes: UInt8, AtomicRepresentable {
  case unknown, whole, coarse
}
