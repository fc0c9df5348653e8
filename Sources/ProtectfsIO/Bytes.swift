extension [UInt8] {
  /// Calls `body` with the bytes. Unlike the standard library's method, it throws only errors of the type that `body`
  /// throws.
  package func withBytes<Result, Failure: Error>(
    _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try unsafe withUnsafeBufferPointer { (buffer) throws(Failure) in
      try unsafe body(UnsafeRawBufferPointer(buffer))
    }
  }

  /// Calls `body` with the bytes, which it may change in place.
  package mutating func withMutableBytes<Result, Failure: Error>(
    _ body: (UnsafeMutableRawBufferPointer) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try unsafe withUnsafeMutableBufferPointer { (buffer) throws(Failure) in
      try unsafe body(UnsafeMutableRawBufferPointer(buffer))
    }
  }
}
