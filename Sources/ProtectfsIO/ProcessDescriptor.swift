import CProtectfsIO
import SystemPackage

/// Watches a process by a descriptor, since the process ID may be reused after its end (pidfd_open(2)).
package struct ProcessDescriptor: ~Copyable, Sendable {
  private let descriptor: Descriptor

  /// - Throws: `ESRCH` if there is no such process.
  package init(_ process: Int32) throws(Errno) {
    descriptor = Descriptor(owning: try check(linux_open_process(process)))
  }

  /// Waits until the process has ended, for at most the given time. Returns whether it has. A process that its parent
  /// has not waited for counts as ended.
  package func waitForEnd(atMost time: Duration) -> Bool {
    (try? Poll.wait(for: .readable(descriptor.rawValue), atMost: time)) == [true]
  }

  /// Asks the process to end (SIGTERM).
  package func end() throws(Errno) { try check(linux_end_process(descriptor.rawValue)) }
}

extension Process {
  /// The state of a process as in proc(5), `stat`: `R` runs, `S` and `D` wait, `T` was stopped by a signal, `t` by a
  /// tracer, `Z` has ended. `nil` if there is no such process or it is hidden.
  package static func state(of process: Int32) -> Character? { state(of: "\(process)") }

  /// Whether a process is one that this process can see, was not stopped, and is not about to end.
  package static func isRunning(_ process: Int32) -> Bool {
    state(of: process).map { !["T", "t", "Z", "X"].contains($0) } ?? false
  }

  /// The same of a thread, by its directory `PROCESS/task/THREAD` in `/proc`.
  package static func state(of task: String) -> Character? {
    guard let bytes = try? Descriptor.open(PathName("/proc/\(task)/stat"), [.readOnly]).readAll(limit: 4096) else {
      return nil
    }
    // "PID (NAME) STATE …", where the name may contain anything.
    let rest = String(decoding: bytes, as: UTF8.self).split(separator: ")").last
    return rest?.first { $0 != " " }
  }

  /// The name of a process, as ps(1) shows it.
  package static func name(of process: Int32) -> String? {
    let bytes = try? Descriptor.open(PathName("/proc/\(process)/comm"), [.readOnly]).readAll(limit: 4096)
    return bytes.map { String(decoding: $0.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self) }
  }
}
