import CSystemCalls
import Glibc
import ProtectfsIO
import SystemPackage
import Testing

/// The hook directory of a test, and what its scripts have recorded.
struct Hooks {
  let directory: PathName
  private let record: PathName

  init(in parent: PathName) throws {
    directory = parent.appending("hooks")
    record = parent.appending("record")
    try directory.makeDirectory()
    for name in ["pre-lock.d", "post-lock.d", "post-unlock.d"] { try directory.appending(name).makeDirectory() }
    try record.write("")
    // A script may be run as another user.
    try record.setMode(0o666)
  }

  /// Creates a script for sh(1), `event/name`, in which `note` adds a line to the record.
  @discardableResult
  func add(_ name: String, _ script: String = "note $PROTECTFS_EVENT ${0##*/}", mode: UInt32 = 0o755) throws -> PathName
  {
    let parts = name.split(separator: "/")
    let path = directory.appending("\(parts[0]).d/\(parts[1])")
    try path.write("#!/bin/sh\nnote() { echo \"$*\" >>'\(record)'; }\n\(script)\n")
    try path.setMode(mode)
    return path
  }

  /// A script for each event, which records event and classes.
  func addNotes() throws {
    for event in ["pre-lock", "post-lock", "post-unlock"] { try add("\(event)/note", "note $PROTECTFS_EVENT") }
  }

  var notes: [String] { (try? text.split(separator: "\n").map(String.init)) ?? [] }

  private var text: String { get throws { String(decoding: try record.contents(), as: UTF8.self) } }

  /// Waits until exactly these lines have been recorded.
  func wait(for expected: [String], seconds: Double = 20, _ location: SourceLocation = #_sourceLocation) {
    let deadline = ContinuousClock.now + .seconds(seconds)
    while notes.count < expected.count, ContinuousClock.now < deadline { usleep(5000) }
    #expect(notes == expected, sourceLocation: location)
  }

  /// The mount option for these hooks.
  func options(_ others: String = "allow_other,grace=1") -> [String] { ["-o", "\(others),hooks=\(directory)"] }
}

/// Processes with a text in their command lines: the one that runs hooks, and its scripts.
struct CommandLines {
  /// Their process IDs.
  static func processes(with text: String) throws -> [CInt] {
    try PathName("/proc").names().compactMap { CInt($0.description) }.filter { process in
      guard let line = try? ProcessStatus.read(PathName("/proc/\(process)/cmdline")) else { return false }
      return process != getpid() && String(decoding: line, as: UTF8.self).contains(text)
    }
  }

  /// Waits until there are none.
  static func haveGone(with text: String) throws -> Bool {
    for _ in 0..<1000 {
      if try processes(with: text).isEmpty { return true }
      usleep(10_000)
    }
    return false
  }
}
