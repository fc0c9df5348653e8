import ProtectfsIO
import SystemPackage

/// A file to which lines are appended; each line is one write, so that lines of several threads do not mix.
package final class LogFile: Sendable {
  /// `nil` for standard error.
  private let file: SharedDescriptor?

  /// The process's standard error.
  init(standardError: Void) {
    file = nil
  }

  /// Opens a file for appending, and makes it with mode 0600 if need be. It must be no symbolic link.
  ///
  /// - Throws: `EPERM` for a file that others own or may write: what it says would be theirs to choose.
  package init(path: String) throws(Errno) {
    // A FIFO that nobody reads is not waited for.
    let flags = OpenFlags([.writeOnly, .append, .create, .noFollow, .nonBlocking])
    let file = try Descriptor.open(PathName(path), flags, mode: 0o600)
    let status = try file.status()
    let isOurs = status.user == Process.identity.user || status.user == 0
    guard status.type != .regular || isOurs && status.permissions & 0o022 == 0 else { throw .notPermitted }
    self.file = SharedDescriptor(file)
  }

  /// Appends a line. What cannot be written is lost: neither a full disk nor a pipe that nobody reads, nor a terminal
  /// that was stopped, must stop the daemon.
  func write(_ line: String) {
    var bytes = Array(line.utf8)
    if bytes.count > Self.longestLine { bytes[(Self.longestLine - 1)...] = [UInt8(ascii: "\n")] }
    StandardStream.writeIfReady(bytes, to: file?.descriptor.rawValue)
  }

  /// What a pipe takes whole or not at all (`PIPE_BUF`, pipe(7)).
  private static let longestLine = 4096
}
