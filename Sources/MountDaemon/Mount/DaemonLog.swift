import FoundationEssentials
import Logging
import ProtectfsIO
import SystemPackage

/// Where a daemon's log goes.
package enum DaemonLog: Sendable {
  /// To standard error, for a daemon in the foreground.
  case standardError
  /// To the journal or syslog, for a detached one.
  case system
  /// To the end of a file.
  case file(LogFile)

  /// A logger that writes there, from `level` upwards; in JSON, where it does not write to the journal.
  package func logger(level: Logger.Level, isJSON: Bool = false) -> Logger {
    var logger =
      switch self {
      case .standardError:
        Logger(label: "protectfs") { _ in LineLogHandler(file: LogFile(standardError: ()), isJSON: isJSON) }
      case .system: Logger(label: "protectfs") { _ in SystemLogHandler() }
      case .file(let file): Logger(label: "protectfs") { _ in LineLogHandler(file: file, isJSON: isJSON) }
      }
    logger.logLevel = level
    return logger
  }
}

/// Logs to the journal or syslog.
struct SystemLogHandler: LogHandler {
  var metadata: Logger.Metadata = [:]
  var metadataProvider: Logger.MetadataProvider?
  var logLevel = Logger.Level.info

  init() {
    SystemLog.open(as: "protectfs")
  }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    SystemLog.write(severity(of: event.level), logLine(event.message, metadata, event.metadata))
  }

  private func severity(of level: Logger.Level) -> SystemLog.Severity {
    switch level {
    case .trace, .debug: .debug
    case .info: .information
    case .notice: .notice
    case .warning: .warning
    case .error, .critical: .error
    }
  }
}

/// Logs lines with time and level to a file or to standard error.
struct LineLogHandler: LogHandler {
  let file: LogFile
  /// Each line is an object, which has the metadata as members.
  let isJSON: Bool
  var metadata: Logger.Metadata = [:]
  var metadataProvider: Logger.MetadataProvider?
  var logLevel = Logger.Level.info

  /// RFC 3339's, in UTC.
  private static let timeStyle = Date.ISO8601FormatStyle(includingFractionalSeconds: true)

  init(file: LogFile, isJSON: Bool = false) {
    self.file = file
    self.isJSON = isJSON
  }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    LockOrder.requireCallsAllowed("the log")
    let time = Date.now.formatted(Self.timeStyle)
    if isJSON { return writeObject(event, time) }
    file.write("\(time) \(event.level.rawValue): \(logLine(event.message, metadata, event.metadata))\n")
  }
}

extension LineLogHandler {
  private func writeObject(_ event: LogEvent, _ time: String) {
    var members = metadata.merging(event.metadata ?? [:]) { _, new in new }.mapValues { "\($0)" }
    members["time"] = time
    members["level"] = event.level.rawValue
    members["message"] = event.message.description
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    guard let object = try? encoder.encode(members) else { return }
    file.write(String(decoding: object, as: UTF8.self) + "\n")
  }
}

/// A message and what belongs to it on one line, whatever file names hold: control characters are shown as `\u{…}`.
func logLine(_ message: Logger.Message, _ base: Logger.Metadata, _ own: Logger.Metadata?) -> String {
  let metadata = own.map { base.merging($0) { _, new in new } } ?? base
  let pairs = metadata.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
  return ([message.description] + pairs).joined(separator: " ").printable
}
