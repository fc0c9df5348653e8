import CFUSE

/// A request that the daemon has the kernel make, for no bytes of a regular file's pages (`fuse_notify_retrieve()` in
/// fs/fuse/dev.c): nothing waits for its answer, and nothing keeps the mount from being unmounted.
enum EmptyRetrieval {
  /// The first number of such a request. The kernel's own numbers are much lower.
  static let firstNumber: UInt64 = 1 << 62

  /// Calls `body` with what is to be written to the device for a request with that number, which is even.
  static func withMessage<Result>(
    _ number: UInt64, of file: UInt64, _ body: (UnsafeRawBufferPointer) -> Result
  ) -> Result {
    var message = (fuse_out_header(), fuse_notify_retrieve_out())
    message.0.len = UInt32(MemoryLayout.size(ofValue: message))
    message.0.error = CInt(bitPattern: FUSE_NOTIFY_RETRIEVE.rawValue)
    message.1.notify_unique = number
    message.1.nodeid = file
    return unsafe withUnsafeBytes(of: &message, body)
  }
}
