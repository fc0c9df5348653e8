import ProtectfsIO

/// The modification time of an open file in the kernel. The backing file must have this time in the end.
///
/// With the write-back cache the kernel keeps the time itself, also for calls that bypass the cache, and sends it only
/// when it changes. If a file is created and written in one clock tick, the kernel sends nothing. The daemon's own
/// pwrite(2), fallocate(2) or ftruncate(2), a little later, would move the file's time, and make and rsync would see
/// that time once the kernel has forgotten the file.
struct ModificationTime {
  private var seconds: Int64
  private var nanoseconds: Int64
  private(set) var isMoved = false
  /// A rekey is writing the file. The backing file keeps the time of those writes until ``rest()``.
  private var isRekeyed = false

  init(_ status: Status) {
    seconds = status.modification_seconds
    nanoseconds = Int64(status.modification_nanoseconds)
  }

  /// Called before the backing file is given the time that the kernel has sent.
  mutating func willBeSet() { isMoved = false }

  /// Called after the backing file was given a time. If it was written meanwhile, its time has moved again.
  mutating func wasSet(_ time: TimeChange, _ status: Status) {
    if case .set(let seconds, let nanoseconds) = time {
      (self.seconds, self.nanoseconds) = (seconds, nanoseconds)
    } else {
      (seconds, nanoseconds) = (status.modification_seconds, Int64(status.modification_nanoseconds))
    }
  }

  /// Called after the backing file was written, or its length or holes were changed.
  mutating func move() { isMoved = true }

  /// The time to set on the backing file, if it was moved. Returns it once.
  mutating func takeChange() -> TimeChange? {
    guard isMoved, !isRekeyed else { return nil }
    isMoved = false
    return .set(seconds: seconds, nanoseconds: nanoseconds)
  }

  /// Whether ``takeChange()`` would return a time.
  var hasChange: Bool { isMoved && !isRekeyed }

  /// Called when a rekey begins to write the file.
  mutating func beginRekey() { isRekeyed = true }

  /// Called when the rekey has finished or is deferred. The time is then one second later than the kernel's, so that a
  /// backup that compares time and length copies the contents together with the new record; one second earlier, if the
  /// kernel's is the last that there is. Returns both times.
  mutating func rest() -> (kernel: TimeChange, backing: TimeChange)? {
    guard isRekeyed else { return nil }
    isRekeyed = false
    let kernel = TimeChange.set(seconds: seconds, nanoseconds: nanoseconds)
    seconds += seconds == .max ? -1 : 1
    isMoved = true
    return (kernel, .set(seconds: seconds, nanoseconds: nanoseconds))
  }
}
