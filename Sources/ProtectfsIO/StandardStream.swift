import CProtectfsIO
import ProtectfsLibc
import SystemPackage

/// Writing to the standard streams past the buffers of the C library.
package enum StandardStream {
  /// Whether somebody at a terminal sees standard error.
  package static var isErrorTerminal: Bool { isatty(STDERR_FILENO) == 1 }

  /// The columns of the terminal on which somebody sees standard error; 0 where nobody does, or it does not say.
  package static var errorColumns: Int { Int(linux_terminal_columns(STDERR_FILENO)) }

  /// Whether somebody at a terminal sees standard output.
  package static var isOutputTerminal: Bool { isatty(STDOUT_FILENO) == 1 }

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

  /// Writes bytes at once to a descriptor, or to standard error without one, if there is room. Else they are lost.
  package static func writeIfReady(_ bytes: [UInt8], to descriptor: CInt?) {
    let descriptor = descriptor ?? STDERR_FILENO
    guard (try? Poll.wait(for: .writable(descriptor), atMost: .zero)) == [true] else { return }
    _ = unsafe write(descriptor, bytes, bytes.count)
  }

  /// Returns why not all could be written.
  static func writeAll(_ stream: CInt, _ bytes: UnsafeRawBufferPointer) -> Errno? {
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
