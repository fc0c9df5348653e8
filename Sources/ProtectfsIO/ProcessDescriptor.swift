import CProtectfsIO
import Glibc
import SystemPackage

/// A process that is watched for its end, by a descriptor: the number may be another process's by then (pidfd_open(2)).
package struct ProcessDescriptor: ~Copyable, Sendable {
  private let descriptor: Descriptor

  /// - Throws: `ESRCH` where there is no such process.
  package init(_ process: Int32) throws(Errno) {
    descriptor = Descriptor(owning: try check(linux_open_process(process)))
  }

  /// Waits until the process has ended, and that long at most; returns whether it has. One that its parent has not waited
  /// for counts as ended.
  package func waitForEnd(atMost time: Duration) -> Bool {
    let end = ContinuousClock.now + time
    while true {
      let rest = max(.zero, end - .now) / .milliseconds(1)
      var event = pollfd(fd: descriptor.rawValue, events: Int16(POLLIN), revents: 0)
      let count = unsafe poll(&event, 1, CInt(min(rest.rounded(.up), 1_000_000_000)))
      if count > 0 { return true }
      if count == 0, ContinuousClock.now >= end { return false }
    }
  }
}

extension Process {
  /// What a process does, as proc(5) has it in `stat`: `R` runs, `S` and `D` wait, `T` was stopped by a signal, `t` by a
  /// tracer, `Z` has ended. `nil` where there is none, or it is not shown.
  package static func state(of process: Int32) -> Character? {
    guard let bytes = try? Descriptor.open(PathName("/proc/\(process)/stat"), [.readOnly]).readAll(limit: 4096) else {
      return nil
    }
    // "PID (NAME) STATE …", and the name may have anything in it.
    let rest = String(decoding: bytes, as: UTF8.self).split(separator: ")").last
    return rest?.first { $0 != " " }
  }

  /// The name of a process, as ps(1) shows it.
  package static func name(of process: Int32) -> String? {
    let bytes = try? Descriptor.open(PathName("/proc/\(process)/comm"), [.readOnly]).readAll(limit: 4096)
    return bytes.map { String(decoding: $0.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self) }
  }
}
