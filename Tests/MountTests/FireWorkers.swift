import Glibc
import ProtectfsIO
import Synchronization
import SystemPackage
import TestVectors
import Testing

/// The endless work of a program on one file. Each step ends with an acknowledgement or an error.
protocol FireWorker: Sendable {
  /// Makes one step and returns its error.
  func step() -> Errno?
  /// Checks the file at the end: everything acknowledged must be there.
  func check() throws
}

/// The errors of a worker, and the number of its successes.
final class FireLog: Sendable {
  private let counts = Mutex<[Errno: Int]>([:])
  private let successCount = Atomic(0)

  var errors: Set<Errno> { Set(counts.withLock { $0.keys }) }
  var successes: Int { successCount.load(ordering: .relaxed) }

  func note(_ error: Errno?) {
    // Time for the others, since there are more workers than processors.
    defer { usleep(500) }
    guard let error else {
      successCount.add(1, ordering: .relaxed)
      return
    }
    counts.withLock { $0[error, default: 0] += 1 }
  }
}

/// `count` bytes that encode their number at every place.
func pattern(_ number: Int, count: Int) -> [UInt8] {
  var bytes = Array("[\(number)]".utf8)
  // Doubled each time, since one byte at a time would take long.
  while bytes.count < count { bytes += bytes }
  return Array(bytes.prefix(count))
}

/// Writes numbered records into slots again and again, of a size that fits into no page, each with an fsync.
final class FireWriter: FireWorker {
  private struct State {
    var next = 0
    /// The last acknowledged record in each slot.
    var acknowledged: [Int: Int] = [:]
    /// Slots that were written since without an acknowledgement.
    var unclear: Set<Int> = []
  }

  private static let size = 700
  private static let slots = 200
  private let path: PathName
  private let file: OpenFile
  private let state = Mutex(State())

  init(_ path: PathName) throws(Errno) {
    self.path = path
    file = try OpenFile(path, O_RDWR | O_CREAT)
    try file.write([UInt8](repeating: 0, count: Self.size * Self.slots), at: 0)
    try file.synchronize()
  }

  func step() -> Errno? {
    let number = state.withLock { state in
      state.next += 1
      return state.next
    }
    let slot = number * 37 % Self.slots
    return failure { () throws(Errno) in
      do throws(Errno) {
        try file.write(pattern(number, count: Self.size), at: slot * Self.size)
      } catch .partialWrite {
        // The first of two pages was accepted: the lock came in between, and the rest would have been refused.
        state.withLock { _ = $0.unclear.insert(slot) }
        throw .permissionDenied
      }
      state.withLock { _ = $0.unclear.insert(slot) }
      try file.synchronize()
      state.withLock {
        $0.acknowledged[slot] = number
        $0.unclear.remove(slot)
      }
    }
  }

  func check() throws {
    let contents = try path.contents()
    let state = state.withLock { $0 }
    #expect(contents.count == Self.size * Self.slots)
    for (slot, number) in state.acknowledged where !state.unclear.contains(slot) {
      let found = Array(contents[slot * Self.size..<(slot + 1) * Self.size])
      #expect(
        found == pattern(number, count: Self.size),
        "\(path): record \(number) in slot \(slot), found \(String(decoding: found, as: UTF8.self))")
    }
  }
}

/// Reads at random places and checks the result.
final class FireReader: FireWorker {
  private static let size = 300_000
  private let file: OpenFile
  private let contents: [UInt8]
  private let random = Mutex(RepeatableGenerator(seed: 7))

  init(_ path: PathName) throws(Errno) {
    contents = pattern(123_456, count: Self.size)
    try path.write(contents)
    file = try OpenFile(path, O_RDONLY)
  }

  func step() -> Errno? {
    let offset = random.withLock { Int.random(in: 0..<Self.size - 5000, using: &$0) }
    return failure { () throws(Errno) in
      // If the lock came in between, what was read before it is returned.
      let found = try file.read(at: offset, count: 5000)
      guard !found.isEmpty, found.elementsEqual(contents[offset..<offset + found.count]) else { throw .protocolError }
    }
  }

  func check() throws {}
}

/// Appends numbered records, each with an fsync.
final class FireAppender: FireWorker {
  private static let size = 100
  private let path: PathName
  private let file: OpenFile
  private let state = Mutex((next: 0, acknowledged: [Int]()))

  init(_ path: PathName) throws(Errno) {
    self.path = path
    file = try OpenFile(path, O_WRONLY | O_APPEND | O_CREAT)
  }

  func step() -> Errno? {
    let number = state.withLock { state in
      state.next += 1
      return state.next
    }
    return failure { () throws(Errno) in
      try file.append(pattern(number, count: Self.size))
      try file.synchronize()
      state.withLock { $0.acknowledged.append(number) }
    }
  }

  func check() throws {
    let contents = try path.contents()
    #expect(contents.count % Self.size == 0, "\(path): \(contents.count) bytes")
    var found: [[UInt8]] = []
    for start in stride(from: 0, to: contents.count - Self.size + 1, by: Self.size) {
      found.append(Array(contents[start..<start + Self.size]))
    }
    // In order, each once. Records that were not acknowledged may be in between.
    var rest = found[...]
    for number in state.withLock({ $0.acknowledged }) {
      let record = pattern(number, count: Self.size)
      let index = rest.firstIndex(of: record)
      #expect(index != nil, "\(path): record \(number) is missing, or not in its place")
      if let index { rest = rest[(index + 1)...] }
    }
  }
}

/// Writes numbers into a mapping, each with an msync.
final class FireMapper: FireWorker {
  private static let pages = 16
  private let path: PathName
  private let mapping: Mapping
  private let state = Mutex((next: 0, acknowledged: [Int: Int](), unclear: Set<Int>()))

  init(_ path: PathName) throws(Errno) {
    self.path = path
    try path.write([UInt8](repeating: 0, count: Self.pages * 4096))
    mapping = try Mapping(OpenFile(path, O_RDWR), count: Self.pages * 4096)
  }

  func step() -> Errno? {
    let number = state.withLock { state in
      state.next += 1
      return state.next
    }
    let page = number % Self.pages
    return failure { () throws(Errno) in
      try mapping.write(pattern(number, count: 64), at: page * 4096 + 1000)
      state.withLock { _ = $0.unclear.insert(page) }
      try mapping.synchronize()
      state.withLock {
        $0.acknowledged[page] = number
        $0.unclear.remove(page)
      }
    }
  }

  func check() throws {
    let contents = try path.contents()
    let state = state.withLock { $0 }
    for (page, number) in state.acknowledged where !state.unclear.contains(page) {
      let found = Array(contents[page * 4096 + 1000..<page * 4096 + 1064])
      #expect(found == pattern(number, count: 64), "\(path): number \(number) on page \(page)")
    }
  }
}
