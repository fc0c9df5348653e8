import FileProtection
import ProtectfsIO
import StoreFormat
import SystemPackage

// The modification time that users see of a file, and that of its backing file, which a rekey has shifted. A record
// that cannot be read shifts nothing: times can be seen and set whatever else is wrong with a file.
extension BackingTree {
  /// What users see of a regular file's modification time. The record is read if the time may be a shifted one.
  package func shownTime(of node: Node, _ status: Status) -> TimeShift.Time {
    let time = status.modificationTime
    if !options.hasOtherWriters, let file = node.file { return file.shown(time) }
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

  private func timeShift(of node: Node, _ descriptor: borrowing Descriptor) -> TimeShift? {
    if !options.hasOtherWriters, let file = node.file { return file.record.timeShift }
    guard let bytes = try? recordBytes(of: descriptor) else { return nil }
    return try? verifiedFileRecord(bytes, of: node).timeShift
  }
}
