extension [UInt8] {
  /// Calls `body` with the bytes, and passes on its error or result, which may be a secret.
  func withBytes<Result: ~Copyable, Failure: Error>(
    _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try unsafe span.withUnsafeBytes(body)
  }

  /// Calls `body` with the bytes, which it may change in place.
  mutating func withMutableBytes<Result: ~Copyable, Failure: Error>(
    _ body: (UnsafeMutableRawBufferPointer) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    var bytes = mutableSpan
    return try unsafe bytes.withUnsafeMutableBytes(body)
  }
}
