import CSystemCalls
import SystemPackage

/// Bytes to look for in a process's memory, 16 at a time: AES key schedules hold keys in pieces of that length.
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

  /// At how many places they are, the name of the first one found, and how much memory was looked at.
  func find(in process: CInt) throws(Errno) -> (count: Int, first: String?, searched: UInt64) {
    var first = 0
    var searched: UInt64 = 0
    let count = try check(
      unsafe bytes.withUnsafeBufferPointer {
        unsafe calls_search_memory(process, $0.baseAddress, Self.length, names.count, &first, &searched)
      })
    return (count, count > 0 ? names[first] : nil, searched)
  }
}
