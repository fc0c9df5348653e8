import ProtectfsIO
import StoreFormat
import Synchronization
import SystemPackage

// The access time, and the modification time that the backing file must have in the end.
extension ProtectedFile {
  /// Records a change. The next reader then moves the access time.
  package func noteChange() {
    isAccessDue.store(true, ordering: .relaxed)
    unflushed.store(true, ordering: .releasing)
  }

  /// Records a change of the contents, which moved the backing file's modification time and not the kernel's.
  package func movedModificationTime() {
    modificationTime.withLock { $0.move() }
  }

  /// Takes over the backing file's modification time, where the kernel does not keep it. One that is set meanwhile
  /// stays.
  package func adoptModificationTime() {
    let known = modificationTime.withLock { $0.time }
    guard let time = try? status().modificationTime else { return }
    let shown = record.shown(time)
    modificationTime.withLock { if $0.time == known { $0.wasSet(shown) } }
  }

  /// Gives the backing file the modification time `time`. `body` does so and returns the status afterwards. A
  /// concurrent write is not mistaken for part of this, nor does a rekey end meanwhile.
  package func setModificationTime(
    _ time: () -> TimeChange, _ body: (TimeChange) throws(Errno) -> Status
  ) throws(Errno) -> Status {
    try timeChange.withLock { (_) throws(Errno) in
      modificationTime.withLock { $0.willBeSet() }
      let change = time()
      let status = try body(change)
      let time = change.time ?? record.shown(status.modificationTime)
      modificationTime.withLock { $0.wasSet(time) }
      return status
    }
  }

  /// Gives the backing file the kernel's modification time, before the file is synchronised or its last handle is
  /// closed.
  package func applyModificationTime() throws(Errno) {
    try timeChange.withLock { (_) throws(Errno) in
      guard let time = modificationTime.withLock({ $0.takeChange() }) else { return }
      let change = TimeChange(record.timeShift?.backing(time) ?? time)
      try contents.backing.descriptor.setTimes(access: .leave, modification: change)
    }
  }

  /// What users see of the backing file's modification time.
  package func shown(_ time: TimeShift.Time) -> TimeShift.Time {
    modificationTime.withLock { $0.unlikeOnDisk } ?? record.shown(time)
  }

  /// Whether the backing file's modification time differs from the kernel's.
  package var isModificationTimeMoved: Bool { modificationTime.withLock { $0.hasChange } }
}
