import CSystemCalls
import Glibc
import ProtectfsIO
import SystemPackage

/// What lstat(2) tells of everything in a row's directory.
struct Observation {
  struct Entry {
    let status: calls_entry
    let path: String

    var isDirectory: Bool { status.mode & S_IFMT == S_IFDIR }
    var times: [Int64] {
      [status.times.0, status.times.1, status.times.2, status.times.3, status.times.4, status.times.5]
    }
  }

  var entries: [Entry] = []

  /// Of what is in the working directory.
  static func take() throws(Errno) -> Observation {
    var start: UnsafeRawPointer?
    let count = Int(try check(unsafe calls_snapshot(&start)))
    let bytes = unsafe UnsafeRawBufferPointer(start: start, count: count)
    var snapshot = Observation()
    var offset = 0
    while offset < count {
      let status = unsafe bytes.loadUnaligned(fromByteOffset: offset, as: calls_entry.self)
      offset += MemoryLayout<calls_entry>.size
      let name = unsafe bytes[offset..<offset + Int(status.name_length)]
      offset += unsafe name.count
      // Names of any bytes stay what they are: those that are no text are told by their bytes.
      let path = unsafe String(validating: name, as: UTF8.self) ?? "\(Array(name))"
      snapshot.entries.append(Entry(status: status, path: path))
    }
    snapshot.entries.sort { $0.path < $1.path }
    return snapshot
  }

  /// The state in words that are the same for two directories when their programs see the same. Of times it tells which
  /// moved since `earlier`, and their values where these were set and not the clock's.
  func lines(since earlier: Observation?, now: Int64) -> [String] {
    let known = Dictionary(
      (earlier?.entries ?? []).map { ($0.status.inode, $0) }, uniquingKeysWith: { first, _ in first })
    let places = Dictionary((earlier?.entries ?? []).map { ($0.path, $0) }, uniquingKeysWith: { first, _ in first })
    var links: [UInt64: String] = [:]
    return entries.map { entry in
      let status = entry.status
      var words = [
        entry.path, String(status.mode, radix: 8), "\(status.user):\(status.group)", "links \(status.links)",
      ]
      if !entry.isDirectory { words.append("size \(status.size)") }
      if status.device != 0 { words.append("device \(status.device)") }
      if status.is_listed_wrong != 0 { words.append("readdir and stat disagree") }
      if let first = links[status.inode] { words.append("is \(first)") } else { links[status.inode] = entry.path }
      if let old = places[entry.path] {
        if old.status.inode != status.inode { words.append("another file") }
      } else if earlier != nil {
        words.append("new here")
      }
      words.append(Self.times(entry.times, known[status.inode]?.times, now: now))
      return words.joined(separator: " ")
    }
  }

  private static func times(_ times: [Int64], _ earlier: [Int64]?, now: Int64) -> String {
    zip(["atime", "mtime", "ctime"], [0, 2, 4]).map { name, index in
      let (seconds, nanoseconds) = (times[index], times[index + 1])
      let isClock = abs(seconds - now) < 3600
      let value = isClock ? "now" : "\(seconds).\(nanoseconds)"
      guard let earlier else { return "\(name) \(value)" }
      let isMoved = earlier[index] != seconds || earlier[index + 1] != nanoseconds
      return "\(name) \(isMoved ? "moved to " : "")\(isClock && !isMoved ? "stays" : value)"
    }.joined(separator: " ")
  }
}
