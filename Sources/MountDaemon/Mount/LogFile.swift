import Glibc
import ProtectfsIO
import SystemPackage

/// A file to which lines are appended; each line is one write, so that lines of several threads do not mix.
package final class LogFile: Sendable {
  private let descriptor: CInt
  private let isOwned: Bool

  /// The process's standard error.
  init(standardError: Void) {
    descriptor = STDERR_FILENO
    isOwned = false
  }

  /// Opens a file for appending, and makes it with mode 0600 if need be. It must be no symbolic link.
  ///
  /// - Throws: `EPERM` for a file that others own or may write: what it says would be theirs to choose.
  package init(path: String) throws(Errno) {
    descriptor = unsafe open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else { throw Errno(rawValue: errno) }
    isOwned = true
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0 else { throw Errno(rawValue: errno) }
    let isOurs = status.st_uid == geteuid() || status.st_uid == 0
    let isFile = status.st_mode & S_IFMT == S_IFREG
    guard !isFile || isOurs && status.st_mode & 0o022 == 0 else { throw .notPermitted }
  }

  deinit {
    if isOwned { close(descriptor) }
  }

  /// Appends a line. What cannot be written is lost: neither a full disk nor a pipe that nobody reads, nor a terminal that
  /// was stopped, must stop the daemon.
  func write(_ line: String) {
    var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
    guard unsafe poll(&entry, 1, 0) == 1, entry.revents & Int16(POLLOUT) != 0 else { return }
    var bytes = Array(line.utf8)
    if bytes.count > Self.longestLine { bytes[(Self.longestLine - 1)...] = [UInt8(ascii: "\n")] }
    _ = unsafe Glibc.write(descriptor, bytes, bytes.count)
  }

  /// What a pipe takes whole or not at all (`PIPE_BUF`, pipe(7)).
  private static let longestLine = 4096
}

/// The time now, as RFC 3339 writes it, in UTC.
func timeStamp() -> String {
  var now = timespec()
  unsafe clock_gettime(CLOCK_REALTIME, &now)
  var parts = unsafe tm()
  unsafe gmtime_r(&now.tv_sec, &parts)
  func padded(_ number: some BinaryInteger, _ digits: Int = 2) -> String {
    let text = String(number)
    return String(repeating: "0", count: max(0, digits - text.count)) + text
  }
  let date = unsafe "\(padded(parts.tm_year + 1900, 4))-\(padded(parts.tm_mon + 1))-\(padded(parts.tm_mday))"
  let time = unsafe "\(padded(parts.tm_hour)):\(padded(parts.tm_min)):\(padded(parts.tm_sec))"
  return "\(date)T\(time).\(padded(now.tv_nsec / 1_000_000, 3))Z"
}
