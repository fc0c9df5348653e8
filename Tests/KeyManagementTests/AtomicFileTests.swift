import ProtectfsIO
import Synchronization
import SystemPackage
import Testing

@Suite("Atomic replacement") struct AtomicFileTests {
  private func commit(_ bytes: [UInt8], to name: PathName, in directory: borrowing Descriptor, mayReplace: Bool = true)
    throws
  {
    var file = try AtomicFile(replacing: name, in: directory)
    try unsafe bytes.withUnsafeBytes { try unsafe file.commit($0, mayReplace: mayReplace) }
  }

  @Test func replacesAsAWhole() throws {
    let directory = try TemporaryDirectory()
    try commit([1, 2, 3], to: "a", in: directory.descriptor)
    try commit([4], to: "a", in: directory.descriptor)
    #expect(try directory.read("a") == [4])
    #expect(try directory.descriptor.status(of: "a").permissions == 0o600)
    #expect(throws: Errno.fileExists) { try commit([5], to: "a", in: directory.descriptor, mayReplace: false) }
    #expect(try directory.read("a") == [4])
    #expect(directory.names() == ["a"])
  }

  @Test func leavesNothingBehindUncommitted() throws {
    let directory = try TemporaryDirectory()
    do { _ = try AtomicFile(replacing: "a", in: directory.descriptor) }
    #expect(directory.names() == [])
  }

  @Test func leftoversOfACrashAreUsedAgain() throws {
    let directory = try TemporaryDirectory()
    try directory.write("a", [1])
    try directory.write("a.new", [9, 9, 9, 9, 9, 9], mode: 0o644)
    try commit([2], to: "a", in: directory.descriptor)
    #expect(try directory.read("a") == [2])
    #expect(try directory.descriptor.status(of: "a").permissions == 0o600)
    #expect(directory.names() == ["a"])
  }

  /// A change that is interrupted between any two of its steps leaves names that the next change can handle.
  @Test(arguments: [["a.new", "b.link"], ["a.new", "b.link", "b"], ["a.new", "b"], ["a.new"]])
  func changesCutShort(_ linked: [String]) throws {
    let directory = try TemporaryDirectory()
    try directory.write("a", [1])
    for name in linked where name != "a.new" {
      try directory.descriptor.link("a", to: PathName(name), in: directory.descriptor)
    }
    try directory.write("a.new", [9])
    for value: UInt8 in 2...3 {
      var file = try AtomicFile(replacing: "a", in: directory.descriptor)
      try unsafe [value].withUnsafeBytes { try unsafe file.commit($0, keepingPreviousAs: "b") }
      #expect(try directory.read("a") == [value])
      #expect(try directory.read("b") == [value - 1])
      #expect(directory.names() == ["a", "b"])
    }
    try commit([4], to: "b", in: directory.descriptor)
    #expect(try directory.read("a") == [3])
  }

  private final class Done: Sendable {
    let flag = Atomic(false)
    let begun = Atomic(false)
  }

  /// A file that is being replaced, and the previous one, exist at every moment.
  @Test func noNameGoesMissing() async throws {
    let directory = try TemporaryDirectory()
    let path = directory.path
    try directory.write("a", [0])
    try directory.write("b", [0])
    let done = Done()
    try await withThrowingTaskGroup(of: Int.self) { group in
      group.addTask {
        let own = try Descriptor.open(PathName(path), [.readOnly, .directory])
        defer { done.flag.store(true, ordering: .relaxed) }
        while !done.begun.load(ordering: .relaxed) { await Task.yield() }
        for value: UInt8 in 1...200 {
          var file = try AtomicFile(replacing: "a", in: own)
          try unsafe [value].withUnsafeBytes { try unsafe file.commit($0, keepingPreviousAs: "b") }
        }
        return 0
      }
      group.addTask {
        let own = try Descriptor.open(PathName(path), [.readOnly, .directory])
        var looks = 0
        defer { done.begun.store(true, ordering: .relaxed) }
        while !done.flag.load(ordering: .relaxed) {
          _ = try own.status(of: "a")
          _ = try own.status(of: "b")
          done.begun.store(true, ordering: .relaxed)
          looks += 1
        }
        return looks
      }
      var looks = 0
      for try await count in group { looks += count }
      #expect(looks > 0)
    }
  }

  /// Several writers each add one to what they read. No addition is lost.
  @Test func writersTakeTurns() async throws {
    let directory = try TemporaryDirectory()
    try directory.write("count", [0])
    let path = directory.path
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<4 {
        group.addTask {
          for _ in 0..<25 {
            let own = try Descriptor.open(PathName(path), [.readOnly, .directory])
            var file = try AtomicFile(replacing: "count", in: own)
            let count = try own.open("count", [.readOnly]).readAll(limit: 2)
            try unsafe [count[0] + 1].withUnsafeBytes {
              try unsafe file.commit($0, keepingPreviousAs: "count.previous")
            }
          }
        }
      }
      try await group.waitForAll()
    }
    #expect(try directory.read("count") == [100])
    #expect(try directory.read("count.previous") == [99])
  }
}
