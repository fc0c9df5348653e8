import Cryptography
import Glibc
import SystemPackage

/// Writing to the standard streams past the buffers of the C library.
enum StandardStream {
  /// Writes to standard error.
  static func writeError(_ text: String) {
    var text = text
    // There is nowhere else to say so where this fails.
    text.withUTF8 { unsafe _ = writeAll(STDERR_FILENO, UnsafeRawBufferPointer($0)) }
  }

  /// Writes bytes to standard output, behind what was printed.
  static func writeOutput(_ bytes: [UInt8]) {
    flush()
    unsafe bytes.withUnsafeBytes { unsafe _ = writeAll(STDOUT_FILENO, $0) }
  }

  /// Writes a secret to standard output, behind what was printed. No buffer keeps a copy of it.
  static func writeSecret(_ secret: borrowing SecretBytes) throws(Errno) {
    flush()
    if let error = unsafe secret.withBytes({ unsafe writeAll(STDOUT_FILENO, $0) }) { throw error }
  }

  /// Writes out what was printed.
  static func flush() {
    fflush(nil)
  }

  /// Returns why not all could be written.
  private static func writeAll(_ stream: CInt, _ bytes: UnsafeRawBufferPointer) -> Errno? {
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
