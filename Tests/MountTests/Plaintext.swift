import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

/// Files of one class, full of unique bytes, written and read back in every possible way; all are still open and
/// mapped.
final class Plaintext {
  private struct Open {
    let path: PathName
    let marker: [UInt8]
    let file: OpenFile
    let mapping: Mapping
  }

  private static let size = 96 * 1024 + 100
  let files: [PathName]
  private(set) var needles = Needles()
  private var open: [Open] = []
  private let fileClass: ProtectionClass

  init(of fileClass: ProtectionClass, on volume: Volume) throws {
    self.fileClass = fileClass
    let directory = volume.path("plaintext")
    try directory.makeDirectory(of: fileClass)
    var random = SystemRandomNumberGenerator()
    for (name, write) in Self.ways {
      let marker = (0..<32).map { _ in UInt8.random(in: 0...255, using: &random) }
      let contents = (0..<Self.size).map { marker[$0 % 32] }
      let path = directory.appending(name)
      let file = try OpenFile(path, O_RDWR | O_CREAT)
      try write(path, file, contents)
      open.append(Open(path: path, marker: marker, file: file, mapping: try Mapping(file, count: Self.size)))
      needles.add("what was written by \(name)", marker)
    }
    files = open.map(\.path)
    // Another name with the attribute's value, which is encrypted too.
    let value = (0..<64).map { _ in UInt8.random(in: 0...255, using: &random) }
    try files[0].setExtendedAttribute("user.secret", to: value)
    #expect(try files[0].extendedAttribute("user.secret") == value)
    needles.add("the value of an extended attribute", value)
    try readInParallel()
    try readAgain()
    // The part of a unit that was not requested is decrypted too.
    for file in open {
      #expect(try OpenFile(file.path, O_RDONLY | OpenFile.direct).read(at: 2016, count: 32) == file.marker)
    }
  }

  /// Reads through every descriptor and mapping, from the cache and from the daemon.
  func readAgain() throws {
    try dropCaches()
    for file in open {
      #expect(try file.file.read(at: 64, count: 64) == file.marker + file.marker, "\(file.path)")
      #expect(try file.mapping.read(at: 32 * 1024, count: 32) == file.marker)
      #expect(try file.file.read(at: 96 * 1024, count: 200) == (0..<100).map { file.marker[$0 % 32] })
    }
  }

  /// Each of the daemon's threads gets a request.
  private func readInParallel() throws {
    let paths = open.map(\.path)
    let threads = (0..<12).map { number in
      Thread(name: "reader") {
        for turn in 0..<20 {
          guard let file = try? OpenFile(paths[(number + turn) % paths.count], O_RDONLY | OpenFile.direct) else {
            return
          }
          _ = try? file.read(at: 0, count: Self.size)
        }
      }
    }
    threads.forEach { $0.join() }
  }

  /// Whatever was open stays unreadable in every way: no page is left, and none comes back.
  func expectUnreadable() throws {
    for file in open {
      #expect(try file.mapping.residentPages() == 0, "\(file.path)")
      #expect(throws: Errno.permissionDenied) { try file.file.read(at: 0, count: 16) }
      #expect(throws: Errno.badAddress) { try file.mapping.read(at: 0, count: 16) }
      #expect(throws: Errno.badAddress) { try Mapping(file.file, count: Self.size).read(at: 8192, count: 16) }
      #expect(throws: Errno.permissionDenied) { try OpenFile(file.path, O_RDONLY) }
      #expect(try file.mapping.residentPages() == 0, "\(file.path)")
    }
  }

  func close() { open = [] }

  private typealias Way = @Sendable (PathName, OpenFile, [UInt8]) throws -> Void

  private static let ways: [(String, Way)] = [
    ("whole pages", { _, file, contents in try write(contents, to: file, by: 4096) }),
    ("odd pieces", { _, file, contents in try write(contents, to: file, by: 1000) }),
    ("one call", { _, file, contents in try file.write(contents, at: 0) }),
    (
      "synchronous writes",
      { path, _, contents in
        try write(contents, to: OpenFile(path, O_WRONLY | OpenFile.synchronous), by: 3000)
      }
    ),
    (
      "direct writes",
      { path, file, contents in
        try OpenFile(path, O_WRONLY | OpenFile.direct).write(Array(contents[..<(96 * 1024)]), at: 0)
        try file.write(Array(contents[(96 * 1024)...]), at: 96 * 1024)
      }
    ),
    (
      "odd direct writes",
      { path, _, contents in
        try write(contents, to: OpenFile(path, O_WRONLY | OpenFile.direct), by: 777)
      }
    ),
    (
      "appends",
      { path, _, contents in
        let file = try OpenFile(path, O_WRONLY | O_APPEND)
        for start in stride(from: 0, to: contents.count, by: 5000) {
          try file.append(Array(contents[start..<min(start + 5000, contents.count)]))
        }
      }
    ),
    (
      "a mapping",
      { _, file, contents in
        try file.truncate(to: contents.count)
        try Mapping(file, count: contents.count).write(contents, at: 0)
      }
    ),
    (
      "a copy",
      { path, file, contents in
        let source = PathName(bytes: Array(path.bytes) + Array(".source".utf8))
        try source.write(contents)
        #expect(
          try OpenFile(source, O_RDONLY).copyRange(from: 0, to: file, at: 0, count: contents.count) == contents.count)
      }
    ),
    (
      "holes and cuts",
      { _, file, contents in
        try file.write(contents, at: 0)
        try file.truncate(to: 50_001)
        try file.truncate(to: 70_000)
        try file.allocate([.punchHole, .keepSize], at: 4100, count: 30_000)
        try write(contents, to: file, by: 10_000)
      }
    ),
  ]

  private static func write(_ contents: [UInt8], to file: OpenFile, by step: Int) throws {
    for start in stride(from: 0, to: contents.count, by: step) {
      try file.write(Array(contents[start..<min(start + step, contents.count)]), at: start)
    }
  }
}
