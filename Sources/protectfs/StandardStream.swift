import Cryptography
import Glibc

/// Writing to the standard streams past the buffers of the C library.
enum StandardStream {
  /// Writes to standard error.
  static func writeError(_ text: String) {
    var text = text
    text.withUTF8 { unsafe writeAll(STDERR_FILENO, UnsafeRawBufferPointer($0)) }
  }

  /// Writes bytes to standard output, behind what was printed.
  static func writeOutput(_ bytes: [UInt8]) {
    flush()
    unsafe bytes.withUnsafeBytes { unsafe writeAll(STDOUT_FILENO, $0) }
  }

  /// Writes a secret to standard output, behind what was printed. No buffer keeps a copy of it.
  static func writeSecret(_ secret: borrowing SecretBytes) {
    flush()
    unsafe secret.withBytes { unsafe writeAll(STDOUT_FILENO, $0) }
  }

  /// Writes out what was printed.
  static func flush() {
    fflush(nil)
  }

  private static func writeAll(_ stream: CInt, _ bytes: UnsafeRawBufferPointer) {
    var rest = unsafe bytes[...]
    while unsafe !rest.isEmpty {
      let count = unsafe write(stream, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
      if count < 0 && errno == EINTR { continue }
      guard count > 0 else { return }
      unsafe rest = rest.dropFirst(count)
    }
  }
}
