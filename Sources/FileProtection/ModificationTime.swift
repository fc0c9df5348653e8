import ProtectfsIO
import StoreFormat

/// The modification time of an open file in the kernel. The backing file must have this time in the end.
///
/// With the write-back cache the kernel keeps the time itself, also for calls that bypass the cache, and sends it only
/// when it changes. If a file is created and written in one clock tick, the kernel sends nothing. The daemon's own
/// pwrite(2), fallocate(2) or ftruncate(2), a little later, would move the file's time, and make and rsync would see
/// that time once the kernel has forgotten the file.
struct ModificationTime {
  /// The kernel's.
  private(set) var time: TimeShift.Time
  private(set) var isMoved = false
  /// A rekey is writing the file. The backing file keeps the time of those writes until ``rest(isShifted:)``.
  private(set) var isRekeyed = false
  /// A rekey has written the file since it was opened. Until it is closed, its time on disk may be that of those
  /// writes.
  private(set) var wasRekeyed = false

  init(_ time: TimeShift.Time) { self.time = time }

  /// Called before the backing file is given the time that the kernel has sent.
  mutating func willBeSet() { isMoved = false }

  /// Called after the backing file was given a time. If it was written meanwhile, its time has moved again.
  mutating func wasSet(_ time: TimeShift.Time) { self.time = time }

  /// Called after the backing file was written, or its length or holes were changed.
  mutating func move() { isMoved = true }

  /// The time to set on the backing file, if it was moved. Returns it once.
  mutating func takeChange() -> TimeShift.Time? {
    guard hasChange else { return nil }
    isMoved = false
    return time
  }

  /// The kernel's, if that on disk may be another.
  var unlikeOnDisk: TimeShift.Time? { isRekeyed || wasRekeyed ? time : nil }

  /// Whether ``takeChange()`` would return a time.
  var hasChange: Bool { isMoved && !isRekeyed }

  /// Called when a rekey begins to write the file.
  mutating func beginRekey() { isRekeyed = true }

  /// Called when the rekey has finished or is deferred. The backing file's time must then differ from the one before,
  /// so that a backup that compares time and length copies the contents together with the new record. If the record has
  /// no new time shift, the kernel's time is moved by a second.
  mutating func rest(isShifted: Bool) {
    isRekeyed = false
    wasRekeyed = true
    isMoved = true
    if !isShifted { time.seconds += time.seconds == .max ? -1 : 1 }
  }
}

extension Status {
  /// The time of the last change of contents.
  package var modificationTime: TimeShift.Time {
    get { .init(seconds: modification_seconds, nanoseconds: modification_nanoseconds) }
    set { (modification_seconds, modification_nanoseconds) = (newValue.seconds, newValue.nanoseconds) }
  }
}

extension TimeChange {
  /// Sets a time.
  package init(_ time: TimeShift.Time) {
    self = .set(seconds: time.seconds, nanoseconds: Int64(time.nanoseconds))
  }

  /// The time, if one is set that is not the current one.
  package var time: TimeShift.Time? {
    guard case .set(let seconds, let nanoseconds) = self else { return nil }
    return .init(seconds: seconds, nanoseconds: UInt32(truncatingIfNeeded: nanoseconds))
  }
}
