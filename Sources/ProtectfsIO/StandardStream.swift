import Glibc
import SystemPackage

/// Writing to the standard streams past the buffers of the C library.
package enum StandardStream {
  /// Whether somebody at a terminal sees standard error.
  package static var isErrorTerminal: Bool { isatty(STDERR_FILENO) == 1 }

  /// Writes to standard error.
  package static func writeError(_ text: String) {
    var text = text
    // There is nowhere else to say so where this fails.
    text.withUTF8 { unsafe _ = writeAll(STDERR_FILENO, UnsafeRawBufferPointer($0)) }
  }

  /// Writes bytes to standard output, behind what was printed. No buffer keeps a copy of them.
  package static func writeOutput(_ bytes: UnsafeRawBufferPointer) throws(Errno) {
    flush()
    if let error = unsafe writeAll(STDOUT_FILENO, bytes) { throw error }
  }

  /// Writes out what was printed.
  package static func flush() {
    fflush(nil)
  }

  /// Returns why not all could be written.
  fileprivate static func writeAll(_ stream: CInt, _ bytes: UnsafeRawBufferPointer) -> Errno? {
    var rest = unsafe bytes[...]
    while unsafe !rest.isEmpty {
      let count = unsafe write(stream, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
      if count < 0 && errno == EINTR { continue }
      guard count > 0 else { return count < 0 ? Errno(rawValue: errno) : .ioError }
      unsafe rest = rest.dropFirst(count)
    }
    return nil
  }
}

extension Descriptor {
  /// Writes text to a terminal; where that fails, there is nobody to see it.
  package func show(_ text: String) {
    var text = text
    text.withUTF8 { unsafe _ = StandardStream.writeAll(rawValue, UnsafeRawBufferPointer($0)) }
  }

  /// Runs `body` while a terminal neither shows what is typed nor waits for the end of a line, nor sends signals for keys
  /// (termios(3)).
  ///
  /// - Throws: `ENOTTY` for what is no terminal, and what `body` throws.
  package func withoutEcho<Result: ~Copyable>(_ body: () throws -> Result) throws -> Result {
    var saved = termios()
    guard unsafe tcgetattr(rawValue, &saved) == 0 else { throw Errno(rawValue: errno) }
    var silent = saved
    silent.c_lflag &= ~tcflag_t(ECHO | ICANON | ISIG)
    unsafe tcsetattr(rawValue, TCSAFLUSH, &silent)
    defer { unsafe tcsetattr(rawValue, TCSAFLUSH, &saved) }
    return try body()
  }
}
