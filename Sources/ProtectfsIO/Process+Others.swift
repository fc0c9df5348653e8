import SystemPackage

// Information in /proc on other processes and threads (proc(5)). None of this needs privileges.
extension Process {
  /// The supplementary groups of a process or thread.
  package static func groups(of process: Int32) throws(Errno) -> [UInt32] {
    try status(of: process, "Groups:").compactMap { UInt32($0) }
  }

  /// The effective capabilities, which apply in the process's own user namespace. `nil` if the process does not itself
  /// act as `user`: a kernel thread, or a call that overlayfs makes in another user's name.
  package static func capabilities(of process: Int32, as user: UInt32) throws(Errno) -> Capabilities? {
    // The real, effective, saved and file system user.
    let users = try status(of: process, "Uid:")
    guard users.count == 4, UInt32(users[3]) == user else { return nil }
    return Capabilities(rawValue: try status(of: process, "CapEff:").first.flatMap { UInt64($0, radix: 16) } ?? 0)
  }

  /// Whether a user of this process's namespace is mapped in another process's (user_namespaces(7), `uid_map`).
  package static func knows(user: UInt32, _ process: Int32) throws(Errno) -> Bool {
    // Each line has three numbers: the first ID inside, the first ID outside, and the count.
    try lines(of: process, "uid_map").contains { line in
      let numbers = words(of: line).compactMap { UInt64($0) }
      return numbers.count == 3 && (numbers[1]..<numbers[1] + numbers[2]).contains(UInt64(user))
    }
  }

  /// Whether a thread of a process waits for a disk, or what stands for one (`State: D`).
  package static func waitsForDisk(_ process: Int32) -> Bool {
    let tasks = try? PathName("/proc/\(process)/task").names(limit: 10_000)
    return (tasks ?? []).compactMap { Int32($0.description) }.contains { (try? status(of: $0, "State:").first) == "D" }
  }

  /// The words of a line of `status`, without its label.
  private static func status(of process: Int32, _ name: String) throws(Errno) -> [String] {
    let line = try lines(of: process, "status").first { $0.starts(with: name.utf8) } ?? []
    return Array(words(of: line).dropFirst())
  }

  private static func lines(of process: Int32, _ file: String) throws(Errno) -> [ArraySlice<UInt8>] {
    try Descriptor.open(PathName("/proc/\(process)/\(file)"), [.readOnly]).readAll(limit: 1 << 16)
      .split(separator: UInt8(ascii: "\n"))
  }

  private static func words(of line: ArraySlice<UInt8>) -> [String] {
    line.split { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }.map { String(decoding: $0, as: UTF8.self) }
  }
}
