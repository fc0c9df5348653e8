import CSystemCalls
import Glibc
import ProtectfsIO
import SystemPackage
import Testing

/// The hook directory of a test, and what its scripts have recorded.
struct Hooks {
  let directory: PathName
  private let record: PathName
  /// What scripts wait for by `gate`.
  private let gate: PathName

  init(in parent: PathName) throws {
    directory = parent.appending("hooks")
    record = parent.appending("record")
    gate = parent.appending("gate")
    try directory.makeDirectory()
    for name in ["pre-lock.d", "post-lock.d", "post-unlock.d"] { try directory.appending(name).makeDirectory() }
    try record.write("")
    // A script may be run as another user.
    try record.setMode(0o666)
  }

  /// Creates a script for sh(1), `event/name`, in which `note` adds a line to the record, and `gate` waits until the
  /// gate is open.
  @discardableResult
  func add(_ name: String, _ script: String = "note $PROTECTFS_EVENT ${0##*/}", mode: UInt32 = 0o755) throws -> PathName
  {
    let parts = name.split(separator: "/")
    let path = directory.appending("\(parts[0]).d/\(parts[1])")
    let functions = "note() { echo \"$*\" >>'\(record)'; }\ngate() { until [ -e '\(gate)' ]; do sleep 0.05; done; }"
    try path.write("#!/bin/sh\n\(functions)\n\(script)\n")
    try path.setMode(mode)
    return path
  }

  func openGate() throws { try gate.write("") }
  func closeGate() throws { try gate.unlink() }

  /// Locks, and waits until a script that was run for that holds the lock back at the gate: so many notes have been
  /// made, and the grace period is over. Returns the call, which has not.
  func lockAtGate(of volume: Volume, gracePeriod: Duration = .milliseconds(100), notes count: Int) throws -> PendingCall
  {
    let call = lock(volume, gracePeriod)
    try #require(eventually { notes.count >= count }, "\(notes)")
    usleep(3 * UInt32(gracePeriod / Duration.microseconds(1)))
    #expect(try volume.status().state == .gracePeriod)
    #expect(call.isPending)
    return call
  }

  /// The same for a script that notes `begun` before the gate; `nil` if the lock has not waited for it.
  func lockIfHeld(of volume: Volume, gracePeriod: Duration) throws -> PendingCall? {
    let before = notes.count
    let call = lock(volume, gracePeriod)
    try #require(eventually { !call.isPending || notes.dropFirst(before).contains("begun") }, "\(notes)")
    usleep(3 * UInt32(gracePeriod / Duration.microseconds(1)))
    return call.isPending ? call : nil
  }

  private func lock(_ volume: Volume, _ gracePeriod: Duration) -> PendingCall {
    PendingCall { () throws(Errno) in
      do {
        var connection = try volume.connection()
        try connection.lock(gracePeriod: gracePeriod, waiting: true)
      } catch { throw .ioError }
    }
  }

  /// A script for each event, which records event and classes.
  func addNotes() throws {
    for event in ["pre-lock", "post-lock", "post-unlock"] { try add("\(event)/note", "note $PROTECTFS_EVENT") }
  }

  var notes: [String] { (try? text.split(separator: "\n").map(String.init)) ?? [] }

  private var text: String { get throws { String(decoding: try record.contents(), as: UTF8.self) } }

  /// Waits until exactly these lines have been recorded.
  func wait(for expected: [String], _ location: SourceLocation = #_sourceLocation) {
    eventually { notes.count >= expected.count }
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
    try eventually { try processes(with: text).isEmpty }
  }
}
