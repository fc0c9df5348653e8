import ProtectfsIO

/// The modification time that the kernel has of an open file, which the backing file must end with.
///
/// With the write-back cache the kernel keeps the time itself, of calls that go past the cache too, and tells it only when
/// it changes. A file made and written in one clock tick is never told of; the daemon's own pwrite(2), fallocate(2) or
/// ftruncate(2), a little later, would move its time, and make and rsync would see another time once the kernel has
/// forgotten the file.
struct ModificationTime {
  private var seconds: Int64
  private var nanoseconds: Int64
  private(set) var isMoved = false
  /// A rekey is writing the file: the backing file keeps the time of that until ``rest()``.
  private var isRekeyed = false

  init(_ status: Status) {
    seconds = status.modification_seconds
    nanoseconds = Int64(status.modification_nanoseconds)
  }

  /// The kernel tells the time: the backing file is about to be given it.
  mutating func willBeTold() { isMoved = false }

  /// The backing file was given a time. If it was written meanwhile, it has another one already.
  mutating func wasTold(_ time: TimeChange, _ status: Status) {
    if case .set(let seconds, let nanoseconds) = time {
      (self.seconds, self.nanoseconds) = (seconds, nanoseconds)
    } else {
      (seconds, nanoseconds) = (status.modification_seconds, Int64(status.modification_nanoseconds))
    }
  }

  /// The backing file was written, or its length or holes were changed.
  mutating func move() { isMoved = true }

  /// What the backing file's time is to be set to, if it was moved; once.
  mutating func takeChange() -> TimeChange? {
    guard isMoved, !isRekeyed else { return nil }
    isMoved = false
    return .set(seconds: seconds, nanoseconds: nanoseconds)
  }

  /// Whether ``takeChange()`` would tell one.
  var isSettleable: Bool { isMoved && !isRekeyed }

  /// A rekey writes the file from now on.
  mutating func beginRekey() { isRekeyed = true }

  /// The rekey has come to its end, or is put off. The time is one second later than the kernel's then: a backup that goes by
  /// time and length is to take the contents with the record. Returns both times.
  mutating func rest() -> (kernel: TimeChange, backing: TimeChange)? {
    guard isRekeyed else { return nil }
    isRekeyed = false
    let kernel = TimeChange.set(seconds: seconds, nanoseconds: nanoseconds)
    seconds += 1
    isMoved = true
    return (kernel, .set(seconds: seconds, nanoseconds: nanoseconds))
  }
}
