import CSystemCalls
import SystemPackage
import Testing

/// Bytes to look for in a process's memory, 16 at a time: AES key schedules contain keys in pieces of that length.
struct Needles {
  private static let length = 16
  private var bytes: [UInt8] = []
  private var names: [String] = []

  mutating func add(_ name: String, _ secret: [UInt8]) {
    for start in stride(from: 0, to: secret.count - Self.length + 1, by: Self.length) {
      bytes += secret[start..<start + Self.length]
      names.append("\(name), bytes from \(start)")
    }
  }

  struct Finding {
    /// The number of places with such bytes.
    let count: Int
    /// The first of them, by name, and its place.
    let first: String?
    /// How much memory was searched.
    let searched: UInt64
  }

  /// Looks for them in a process's memory.
  func find(in process: CInt) throws(Errno) -> Finding {
    var found = calls_found()
    var searched: UInt64 = 0
    let count = try check(
      unsafe bytes.withUnsafeBufferPointer {
        unsafe calls_search_memory(process, $0.baseAddress, Self.length, names.count, &found, &searched)
      })
    guard count > 0 else { return Finding(count: 0, first: nil, searched: searched) }
    let mapping = unsafe withUnsafeBytes(of: found.mapping) {
      unsafe String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
    }
    let place = "at \(String(found.address, radix: 16)) in \(mapping)"
    return Finding(count: count, first: "\(names[found.needle]), \(place)", searched: searched)
  }

  /// Expects a process's memory to have none of them.
  func expectNone(in process: CInt, sourceLocation: SourceLocation = #_sourceLocation) throws {
    let found = try find(in: process)
    #expect(
      found.count == 0, "\(found.first ?? "") is in memory; \(found.count) places in all",
      sourceLocation: sourceLocation)
    #expect(found.searched > 1 << 20, "hardly anything was searched", sourceLocation: sourceLocation)
  }
}
