import ProtectfsIO

/// The connections that a server has. When there is no room for one more, one goes of the process that has the most:
/// the one that has been silent longest, so that clients that say nothing keep nobody out. One whose call is being
/// carried out goes only for a process that has fewer.
struct ConnectionTable {
  /// One client among all that ever were.
  typealias Number = UInt64

  private struct Entry {
    let descriptor: CInt
    let process: Int32
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

  /// Takes a client of a process that has just come; returns `nil` where there are `limit` and none goes.
  mutating func admit(_ descriptor: CInt, of process: Int32, limit: Int, now: Int64) -> Number? {
    let count = entries.values.count { !$0.isEnding }
    guard count < limit || makeRoom(for: process) else { return nil }
    next += 1
    entries[next] = Entry(descriptor: descriptor, process: process, silentSince: now)
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

  /// Ends a client for one that has come, or that cannot come: the process of that is not known, and no call is ended
  /// for it. Returns whether there was one.
  @discardableResult
  mutating func makeRoom(for process: Int32? = nil) -> Bool {
    let present = entries.filter { !$0.value.isEnding && (process != nil || $0.value.silentSince != nil) }
    let counts = present.values.reduce(into: [:]) { $0[$1.process, default: 0] += 1 }
    func order(_ number: Number, _ entry: Entry) -> (Int, Int64, Number) {
      (-counts[entry.process]!, entry.silentSince ?? .max, number)
    }
    guard let (number, entry) = present.min(by: { order($0.key, $0.value) < order($1.key, $1.value) }),
      entry.silentSince != nil || process.map({ counts[entry.process]! > counts[$0] ?? 0 }) ?? false
    else { return false }
    end(number)
    return true
  }

  private mutating func end(_ number: Number) {
    guard let entry = entries[number] else { return }
    entries[number]?.isEnding = true
    LocalSocket.shutDown(entry.descriptor)
  }
}
