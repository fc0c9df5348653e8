import ProtectfsIO

/// The connections that a server has. When there is no room for one more, the one that has been silent longest goes, so
/// that clients that say nothing keep nobody out.
struct ConnectionTable {
  /// One client among all that ever were.
  typealias Number = UInt64

  private struct Entry {
    let descriptor: CInt
    /// Since when no call of the client is being carried out, in nanoseconds of the monotonic clock; `nil` during a
    /// call.
    var silentSince: Int64?
    /// It is shut down: its thread is about to notice.
    var isEnding = false
  }

  private var entries: [Number: Entry] = [:]
  private var next: Number = 0

  /// Whether the last thread has gone.
  var isEmpty: Bool { entries.isEmpty }

  /// Takes a client that has just come; returns `nil` where there are `limit` and all of them have a call carried out.
  mutating func admit(_ descriptor: CInt, limit: Int, now: Int64) -> Number? {
    let count = entries.values.count { !$0.isEnding }
    guard count < limit || endLongestSilent() else { return nil }
    next += 1
    entries[next] = Entry(descriptor: descriptor, silentSince: now)
    return next
  }

  /// A call has come, or was answered.
  mutating func note(_ number: Number, silentSince: Int64?) {
    entries[number]?.silentSince = silentSince
  }

  /// The thread of a connection ends, and will close its descriptor.
  mutating func remove(_ number: Number) {
    entries[number] = nil
  }

  /// Shuts all connections down.
  mutating func endAll() {
    for number in entries.keys { end(number) }
  }

  private mutating func endLongestSilent() -> Bool {
    let silent = entries.filter { !$0.value.isEnding && $0.value.silentSince != nil }
    guard let number = silent.min(by: { ($0.value.silentSince!, $0.key) < ($1.value.silentSince!, $1.key) })?.key else {
      return false
    }
    end(number)
    return true
  }

  private mutating func end(_ number: Number) {
    guard let entry = entries[number] else { return }
    entries[number]?.isEnding = true
    LocalSocket.shutDown(entry.descriptor)
  }
}
