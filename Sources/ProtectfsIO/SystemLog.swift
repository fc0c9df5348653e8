import ProtectfsLibc

/// The system log, on most systems the journal (syslog(3)).
package enum SystemLog {
  /// The severity of a message, as numbered by syslog(3).
  package enum Severity: CInt, Sendable {
    case error = 3
    case warning = 4
    case notice = 5
    case information = 6
    case debug = 7
  }

  /// Starts logging under a name, which must stay in memory: a literal.
  package static func open(as name: StaticString) {
    name.withUTF8Buffer { buffer in
      unsafe buffer.withMemoryRebound(to: CChar.self) { unsafe openlog($0.baseAddress!, LOG_PID, LOG_DAEMON) }
    }
  }

  /// Logs one line.
  package static func write(_ severity: Severity, _ line: String) {
    LockOrder.requireCallsAllowed("syslog")
    unsafe line.withCString { text in unsafe withVaList([text]) { unsafe vsyslog(severity.rawValue, "%s", $0) } }
  }
}
