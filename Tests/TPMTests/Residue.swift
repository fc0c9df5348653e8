import Glibc

/// A secret that is nowhere in plain in this process's memory: every byte is stored inverted.
struct HiddenNeedle {
  private let turned: [UInt8]

  init(turned: [UInt8]) {
    self.turned = turned
  }

  var count: Int { turned.count }

  /// The byte at an index, in plain.
  subscript(_ index: Int) -> UInt8 { ~turned[index] }

  /// Where it is found in the writable memory of this process: lines of /proc/self/maps.
  func places() throws -> [String] {
    let memory = unsafe open("/proc/self/mem", O_RDONLY | O_CLOEXEC)
    defer { close(memory) }
    let size = 1 << 20
    let chunk = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 4096)
    defer { unsafe chunk.deallocate() }
    var places: [String] = []
    for (start, end, line) in Self.mappings() {
      var at = start
      while at < end {
        let got = unsafe pread(memory, chunk, min(size, end - at), off_t(at))
        guard got > 0 else { break }
        let found = unsafe occurrences(in: UnsafeRawBufferPointer(start: chunk, count: got))
        unsafe memset(chunk, 0, got)
        places += Array(repeating: line, count: found)
        guard at + got < end else { break }
        at += max(1, got - count + 1)
      }
    }
    return places
  }

  private func occurrences(in bytes: UnsafeRawBufferPointer) -> Int {
    var found = 0
    var at = 0
    while at + count <= bytes.count,
      let next = unsafe memchr(bytes.baseAddress! + at, CInt(self[0]), bytes.count - at - count + 1)
    {
      let position = unsafe UnsafeRawPointer(next) - bytes.baseAddress!
      var index = 1
      while index < count, unsafe bytes[position + index] == self[index] { index += 1 }
      if index == count { found += 1 }
      at = position + 1
    }
    return found
  }

  private static func mappings() -> [(Int, Int, String)] {
    var text: [UInt8] = []
    let file = unsafe open("/proc/self/maps", O_RDONLY | O_CLOEXEC)
    defer { close(file) }
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    while true {
      let got = unsafe read(file, &buffer, buffer.count)
      guard got > 0 else { break }
      text += buffer.prefix(got)
    }
    return text.split(separator: UInt8(ascii: "\n")).compactMap { line in
      let line = String(decoding: line, as: UTF8.self)
      let fields = line.split(separator: " ")
      let range = fields[0].split(separator: "-").compactMap { Int($0, radix: 16) }
      guard range.count == 2, fields[1].hasPrefix("rw") else { return nil }
      return (range[0], range[1], line)
    }
  }
}
