import SystemPackage

/// The control groups of a process (cgroups(7)), where systems have them: in the unified hierarchy of version 2, and in
/// those of controllers of version 1. A group that this process does not see counts as none.
package struct ControlGroups: Sendable {
  private let process: String
  private let root: String
  private let information: String

  /// - Parameters:
  ///   - process: `nil` for this one.
  ///   - root: where the hierarchies are mounted; `information`: a directory as `/proc`.
  package init(of process: Int32? = nil, root: String = "/sys/fs/cgroup", information: String = "/proc") {
    self.process = process.map { "\($0)" } ?? "self"
    self.root = root
    self.information = information
  }

  /// What has stopped a process with its group: the file that says so, and what thaws the group when written there.
  package struct Freezer: Equatable, Sendable {
    package let file: String
    package let thaw: String
  }

  /// The freezer of the group, or of the nearest one above it, that is frozen.
  package var freezer: Freezer? {
    for group in groups() where Self.number(in: "\(group)/cgroup.freeze") == 1 {
      return Freezer(file: "\(group)/cgroup.freeze", thaw: "0")
    }
    for group in groups(of: "freezer") where Self.number(in: "\(group)/freezer.self_freezing") == 1 {
      return Freezer(file: "\(group)/freezer.state", thaw: "THAWED")
    }
    return nil
  }

  /// How much memory a process may still take before the kernel ends one for it.
  package struct MemoryRoom: Equatable, Sendable {
    package let bytes: UInt64
    /// The file with the limit that is nearest.
    package let limit: String
  }

  /// What the limits of the group and those above it leave, with what the kernel can free; `nil` without any limit.
  package var memoryRoom: MemoryRoom? {
    let swap = Self.numbers(in: "\(information)/meminfo")["SwapFree:"].map { $0 << 10 } ?? 0
    let rooms =
      groups().compactMap { Self.room(in: $0, swap) }
      + groups(of: "memory").compactMap {
        Self.formerRoom(in: $0, swap)
      }
    return rooms.min { $0.bytes < $1.bytes }
  }

  private static func room(in group: String, _ freeSwap: UInt64) -> MemoryRoom? {
    let limit = "\(group)/memory.max"
    guard let most = number(in: limit) else { return nil }
    let statistics = numbers(in: "\(group)/memory.stat")
    let freeable = ["active_file", "inactive_file", "slab_reclaimable"].compactMap { statistics[$0] }.reduce(0, +)
    let swap = number(in: "\(group)/memory.swap.max").map { $0.reduced(by: number(in: "\(group)/memory.swap.current")) }
    let free = most.reduced(by: number(in: "\(group)/memory.current").map { $0.reduced(by: freeable) })
    return MemoryRoom(bytes: free + min(swap ?? freeSwap, freeSwap), limit: limit)
  }

  /// The same of version 1, which limits memory, and memory with swap. It does not say how much of what the kernel
  /// itself uses, such as names that it remembers, it can free: that counts as free.
  private static func formerRoom(in group: String, _ freeSwap: UInt64) -> MemoryRoom? {
    let limit = "\(group)/memory.limit_in_bytes"
    guard let most = number(in: limit) else { return nil }
    let statistics = numbers(in: "\(group)/memory.stat")
    let used = ["total_rss", "total_shmem"].compactMap { statistics[$0] }.reduce(0, +)
    let withSwap = number(in: "\(group)/memory.memsw.limit_in_bytes")
      .map { $0.reduced(by: used + (statistics["total_swap"] ?? 0)) }
    return MemoryRoom(bytes: min(most.reduced(by: used) + freeSwap, withSwap ?? .max), limit: limit)
  }

  // MARK: Groups and their files

  /// The directories of the group and of those above it, from the inside out, in the hierarchy of a controller of
  /// version 1, or by default in that of version 2. In a container, where a directory may be mounted that is not the
  /// outermost, some are not there.
  private func groups(of controller: String? = nil) -> [String] {
    // "0::/group", "4:memory:/group", "3:cpu,cpuacct:/group"
    let lines = Self.text("\(information)/\(process)/cgroup").split(separator: "\n")
    for line in lines {
      let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
      guard fields.count == 3 else { continue }
      let controllers = fields[1].split(separator: ",")
      guard controller.map({ controllers.contains($0[...]) }) ?? controllers.isEmpty else { continue }
      var names = fields[2].split(separator: "/")
      // A group outside of the namespace of this process.
      guard !names.contains("..") else { return [] }
      var groups: [String] = []
      while true {
        groups.append(([base(of: controller)] + names.map(String.init)).joined(separator: "/"))
        if names.popLast() == nil { return groups }
      }
    }
    return []
  }

  /// Where a hierarchy is mounted. That of version 2 is in a directory beside those of version 1, if there are any.
  private func base(of controller: String?) -> String {
    if let controller { return "\(root)/\(controller)" }
    let isUnified = (try? Descriptor.open(PathName("\(root)/cgroup.controllers"), [.path])) != nil
    return isUnified ? root : "\(root)/unified"
  }

  /// The number in a file; `nil` where there is no such file, or no limit in it ("max").
  private static func number(in path: String) -> UInt64? { UInt64(text(path).prefix { $0 != "\n" }) }

  /// The numbers of a file of lines with a name and a number.
  private static func numbers(in path: String) -> [Substring: UInt64] {
    let pairs = text(path).split(separator: "\n").compactMap { line -> (Substring, UInt64)? in
      let words = line.split(separator: " ")
      guard words.count >= 2, let number = UInt64(words[1]) else { return nil }
      return (words[0], number)
    }
    return Dictionary(pairs) { first, _ in first }
  }

  private static func text(_ path: String) -> String {
    let bytes = try? Descriptor.open(PathName(path), [.readOnly]).readAll(limit: 1 << 16)
    return String(decoding: bytes ?? [], as: UTF8.self)
  }
}

extension UInt64 {
  /// The number less another one, and 0 where that is greater.
  fileprivate func reduced(by other: UInt64?) -> UInt64 {
    let other = other ?? 0
    return self > other ? self - other : 0
  }
}
