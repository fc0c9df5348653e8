import Glibc
import ProtectfsIO
import SystemPackage
import Testing

extension MountTests {
  /// The cost of operations in requests of the kernel: a round trip each, which takes longer than all the cryptography
  /// of a small file. These counts must not increase. Requests that the kernel adds itself are named.
  @Suite struct RequestCountTests {
    struct Row: Sendable, CustomTestStringConvertible {
      let name: String
      /// What must exist before.
      var before: @Sendable (PathName) throws -> Void = { _ in }
      let operation: @Sendable (PathName) throws -> Void
      /// Requests per operation.
      let costs: [String: Int]

      var testDescription: String { name }
    }

    /// How often each operation is done, so that requests sent only once, for the directory, do not count.
    static let times = 20

    static let rows: [Row] = [
      // getattr of the directory: after each new name the kernel asks for its times and mode again. getxattr: once for
      // a new inode, security.capability.
      Row(
        name: "create, write 4 KiB, close",
        operation: { try OpenFile($0, O_WRONLY | O_CREAT).write([UInt8](repeating: 1, count: 4096), at: 0) },
        costs: ["lookup": 1, "create": 1, "getxattr": 1, "getattr": 1, "write": 1, "release": 1]),
      Row(
        name: "create an empty file", operation: { _ = try OpenFile($0, O_WRONLY | O_CREAT | O_EXCL) },
        costs: ["lookup": 1, "create": 1, "getattr": 1, "release": 1]),
      Row(
        name: "open, read, close",
        before: {
          try $0.write("contents"); _ = try $0.contents()
        },
        operation: { _ = try OpenFile($0, O_RDONLY).read(at: 0, count: 8) }, costs: ["open": 1, "release": 1]),
      Row(
        name: "stat",
        before: {
          try $0.write("contents"); _ = try $0.status()
        }, operation: { _ = try $0.status() }, costs: [:]),
      Row(
        name: "stat of what is not there", before: { _ = try? $0.status() }, operation: { _ = try? $0.status() },
        costs: [:]),
      Row(
        name: "mkdir", operation: { try $0.makeDirectory() }, costs: ["lookup": 1, "mkdir": 1, "getattr": 1]),
      // setattr: with the write-back cache the kernel sends the time of the change.
      Row(
        name: "rename", before: { try $0.write("contents") }, operation: { try $0.rename(to: PathName("\($0).new")) },
        costs: ["lookup": 1, "rename": 1, "getattr": 1, "setattr": 1]),
      Row(
        name: "unlink", before: { try $0.write("contents") }, operation: { try $0.unlink() },
        costs: ["unlink": 1, "getattr": 1, "setattr": 1, "forget": 1]),
      Row(
        name: "list a directory again",
        before: {
          try $0.makeDirectory(); _ = try $0.names(); _ = try $0.names()
        },
        operation: { _ = try $0.names() }, costs: ["opendir": 1, "releasedir": 1]),
    ]

    @Test(arguments: rows) func row(_ row: Row) throws {
      try Volume.with { volume in
        let paths = (0..<Self.times).map { volume.path("file \($0)") }
        for path in paths { try row.before(path) }
        try volume.shell("sync -f .")
        let before = try settledCounts(volume)
        // The kernel sends the time of a change that comes later, by its clock, than the one before.
        var ticks = 0
        for path in paths {
          let time = Self.coarseTime()
          try row.operation(path)
          if Self.coarseTime() != time { ticks += 1 }
        }
        let after = try settledCounts(volume)
        for (name, count) in after {
          let allowed = row.costs[name, default: 0] * Self.times + Self.times / 4 + (name == "setattr" ? ticks : 0)
          #expect(count - before[name, default: 0] <= allowed, "\(name)")
        }
        for (name, count) in row.costs where count > 0 {
          #expect(after[name, default: 0] > before[name, default: 0], "\(name) is not needed any more: lower the bound")
        }
      }
    }

    /// The time that the kernel gives to changes, in nanoseconds; it moves every few milliseconds.
    private static func coarseTime() -> Int64 {
      var time = timespec()
      unsafe clock_gettime(CLOCK_REALTIME_COARSE, &time)
      return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    /// The counts once no more requests come: releases and write-backs come after the call.
    private func settledCounts(_ volume: Volume) throws -> [String: Int] {
      var last: [String: Int] = [:]
      for _ in 0..<100 {
        let next = try volume.status().requests
        if next == last { return next }
        last = next
        usleep(50_000)
      }
      Issue.record("requests keep coming")
      return last
    }
  }
}
