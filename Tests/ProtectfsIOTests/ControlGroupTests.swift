import Foundation
import ProtectfsIO
import Testing

/// What control groups say, in files of a directory that stands for `/sys/fs/cgroup` and `/proc`.
@Suite struct ControlGroupTests {
  private static func with(_ files: [String: String], _ body: (ControlGroups) throws -> Void) throws {
    let directory = FileManager.default.temporaryDirectory.appending(path: "protectfs-groups.\(UUID())")
    defer { try? FileManager.default.removeItem(at: directory) }
    for (name, text) in files {
      let file = directory.appending(path: name)
      try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
      try Data("\(text)\n".utf8).write(to: file)
    }
    try body(ControlGroups(of: 7, root: directory.path + "/groups", information: directory.path + "/proc"))
  }

  private static let mebibyte: UInt64 = 1 << 20
  private static let swap = ["proc/meminfo": "MemFree:  1 kB\nSwapFree:       4096 kB"]

  /// The nearest of the limits of a group and those above it, and what the kernel can free.
  @Test func memoryOfVersion2() throws {
    let files = [
      "proc/7/cgroup": "0::/outer/inner", "groups/cgroup.controllers": "memory",
      "groups/outer/memory.max": "\(100 * Self.mebibyte)", "groups/outer/memory.current": "\(60 * Self.mebibyte)",
      "groups/outer/memory.stat":
        "anon 1\nactive_file \(3 * Self.mebibyte)\ninactive_file \(5 * Self.mebibyte)\nslab_reclaimable \(Self.mebibyte)",
      "groups/outer/inner/memory.max": "max", "groups/outer/inner/memory.current": "\(10 * Self.mebibyte)",
    ]
    try Self.with(files) { #expect($0.memoryRoom?.bytes == 49 * Self.mebibyte) }
    try Self.with(files.merging(Self.swap) { $1 }) { groups in
      #expect(groups.memoryRoom?.bytes == 53 * Self.mebibyte)
      #expect(groups.memoryRoom?.limit.hasSuffix("/groups/outer/memory.max") == true)
    }
    let limited = ["groups/outer/memory.swap.max": "\(Self.mebibyte)", "groups/outer/memory.swap.current": "0"]
    try Self.with(files.merging(Self.swap) { $1 }.merging(limited) { $1 }) { groups in
      #expect(groups.memoryRoom?.bytes == 50 * Self.mebibyte)
    }
    let inner = ["groups/outer/inner/memory.max": "\(30 * Self.mebibyte)"]
    try Self.with(files.merging(inner) { $1 }) { #expect($0.memoryRoom?.bytes == 20 * Self.mebibyte) }
    let overdrawn = ["groups/outer/inner/memory.max": "4096"]
    try Self.with(files.merging(overdrawn) { $1 }) { #expect($0.memoryRoom?.bytes == 0) }
  }

  /// Memory has a limit, and memory with swap another one.
  @Test func memoryOfVersion1() throws {
    let files = [
      "proc/7/cgroup": "5:cpu,cpuacct:/other\n4:memory:/group\n0::/",
      "groups/memory/group/memory.limit_in_bytes": "\(64 * Self.mebibyte)",
      // All of it is in use, but for names and pages that the kernel remembers.
      "groups/memory/group/memory.usage_in_bytes": "\(64 * Self.mebibyte)",
      "groups/memory/group/memory.stat":
        "total_cache \(9 * Self.mebibyte)\ntotal_rss \(15 * Self.mebibyte)\ntotal_shmem \(3 * Self.mebibyte)\n"
        + "total_swap \(Self.mebibyte)",
      "groups/memory/memory.limit_in_bytes": "9223372036854771712",
      "groups/memory/memory.stat": "total_rss \(2000 * Self.mebibyte)",
    ].merging(Self.swap) { $1 }
    try Self.with(files) { groups in
      #expect(groups.memoryRoom?.bytes == 50 * Self.mebibyte)
      #expect(groups.memoryRoom?.limit.hasSuffix("/memory/group/memory.limit_in_bytes") == true)
    }
    let both = [
      "groups/memory/group/memory.memsw.limit_in_bytes": "\(64 * Self.mebibyte)"
    ]
    try Self.with(files.merging(both) { $1 }) { #expect($0.memoryRoom?.bytes == 45 * Self.mebibyte) }
  }

  @Test func noLimitIsNone() throws {
    try Self.with(["proc/7/cgroup": "0::/group", "groups/group/memory.max": "max"]) { #expect($0.memoryRoom == nil) }
    try Self.with(["proc/7/cgroup": "0::/../elsewhere"]) { #expect($0.memoryRoom == nil && $0.freezer == nil) }
    try Self.with([:]) { #expect($0.memoryRoom == nil && $0.freezer == nil) }
  }

  /// The group above is frozen, or none: the state of that of the process alone says nothing.
  @Test(arguments: [
    ("cgroup.controllers", "cgroup.freeze", "cgroup.freeze", "0"),
    ("unified/cgroup.controllers", "unified/cgroup.freeze", "unified/cgroup.freeze", "0"),
    ("freezer/tasks", "freezer/freezer.self_freezing", "freezer/freezer.state", "THAWED"),
  ])
  func frozenGroups(_ mark: String, _ file: String, _ thawing: String, _ word: String) throws {
    func inGroup(_ group: String, _ file: String) -> String {
      let parts = file.split(separator: "/")
      return (["groups"] + parts.dropLast().map(String.init) + [group, String(parts.last!)]).joined(separator: "/")
    }
    let files = [
      "proc/7/cgroup": "6:freezer:/outer/inner\n0::/outer/inner", "groups/\(mark)": "",
      inGroup("outer/inner", file): "0",
    ]
    try Self.with(files.merging([inGroup("outer", file): "0"]) { $1 }) { #expect($0.freezer == nil) }
    try Self.with(files.merging([inGroup("outer", file): "1"]) { $1 }) { groups in
      #expect(groups.freezer?.file.hasSuffix(inGroup("outer", thawing)) == true)
      #expect(groups.freezer?.thaw == word)
    }
  }
}
