import ProtectfsIO

/// Files of one directory that a program reads one after another, and which of them it will read next.
///
/// Programs read the files of a directory in the order of its listing (searches, archives), of their inode numbers
/// (copies, and whatever goes by names that were counted up) or of their names (rsync(1), shells). Which one it is, the
/// first few show.
struct DirectoryScan {
  enum Order: CaseIterable {
    case inodes, listing, names
  }

  struct Entry: Sendable {
    let name: PathName
    let inode: UInt64
  }

  /// So many files are read ahead of the program.
  static let width = 32
  /// The first reads of so many files must have waited for the disk, if no order is expected.
  private static let firstReads = 3
  /// So many entries further at most is the next file that the program reads.
  private static let longestStep = 8
  /// A scan that was given up begins anew after so many reads that waited, and each time after twice as many: the
  /// directory is listed for that, which takes long if it is large.
  private static let pause = 64
  private static let longestPause = 1 << 13

  private enum Phase: Equatable {
    case waiting, loading, running
    case givenUp(waits: Int)
  }

  private var phase = Phase.waiting
  /// The inodes of the last files whose reads waited.
  private var recent: [UInt64] = []
  private var entries: [Entry] = []
  /// The index of the next entry to be read ahead.
  private var next = 0
  /// The inodes of the entries before that, as far as the program may still open them.
  private var ahead: ArraySlice<UInt64> = []
  private var pause = 0
  private var hits = 0
  private var losses = 0
  private(set) var order: Order?

  /// Whether opened files are of interest.
  var isRunning: Bool { phase == .running }
  /// Whether the program did not go by the order that showed, or was expected.
  var isGivenUp: Bool { if case .givenUp = phase { true } else { false } }
  /// Whether most of what was read ahead was opened.
  var isFruitful: Bool { hits > losses }
  /// The program has come to the end of the directory.
  var isOver: Bool { isRunning && next == entries.count && ahead.isEmpty }

  /// The first read of a file has waited for the disk. `expected` is the order of a scan of another directory a moment
  /// ago. Returns whether the directory's files should be listed.
  mutating func waited(for inode: UInt64, expected: Order?) -> Bool {
    switch phase {
    case .loading, .running: return false
    case .givenUp(let waits):
      phase = waits < pause ? .givenUp(waits: waits + 1) : .waiting
      return false
    case .waiting:
      if recent.last != inode { recent.append(inode) }
      if recent.count > Self.firstReads { recent.removeFirst() }
      return recent.count >= (expected == nil ? Self.firstReads : 1)
    }
  }

  /// The directory's files are being listed.
  mutating func beginLoading(expected: Order?) {
    order = expected
    phase = .loading
  }

  /// The directory has these regular files, in an order. Returns whether it is the program's.
  mutating func load(_ files: [Entry], in order: Order) -> Bool {
    guard self.order == nil || self.order == order else { return false }
    let places = recent.compactMap { inode in files.firstIndex { $0.inode == inode } }
    let steps = zip(places, places.dropFirst()).map { $1 - $0 }
    guard let last = places.last, places.count == recent.count, steps.allSatisfy((1...Self.longestStep).contains) else {
      return false
    }
    (self.order, entries, next, phase) = (order, files, last + 1, .running)
    return true
  }

  /// Nothing is known of what comes next.
  mutating func giveUp() {
    let pause = hits > Self.width ? Self.pause : min(max(Self.pause, 2 * pause), Self.longestPause)
    self = DirectoryScan()
    self.pause = pause
    phase = .givenUp(waits: 0)
  }

  /// A file was opened to be read. Returns whether there is something to be read ahead.
  mutating func opened(_ inode: UInt64) -> Bool {
    guard isRunning else { return false }
    if let index = ahead.firstIndex(of: inode) {
      hits += 1
      losses += index - ahead.startIndex
      ahead = ahead[(index + 1)...]
    } else {
      losses += 1
    }
    if losses > hits + Self.width { giveUp() }
    return ahead.count <= Self.width / 2 && next < entries.count
  }

  /// The files that are to be read ahead now.
  mutating func takeNext() -> ArraySlice<Entry> {
    guard isRunning else { return [] }
    let batch = entries[next...].prefix(Self.width - ahead.count)
    next += batch.count
    ahead = Array(ahead + batch.map(\.inode))[...]
    return batch
  }
}
