extension [UInt8] {
  /// Calls `body` with the bytes, and passes on just what it throws, which the standard library's does not yet.
  package func withBytes<Result, Failure: Error>(
    _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try unsafe withUnsafeBufferPointer { (buffer) throws(Failure) in
      try unsafe body(UnsafeRawBufferPointer(buffer))
    }
  }

  /// Calls `body` with the bytes, to be changed in place.
  package mutating func withMutableBytes<Result, Failure: Error>(
    _ body: (UnsafeMutableRawBufferPointer) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try unsafe withUnsafeMutableBufferPointer { (buffer) throws(Failure) in
      try unsafe body(UnsafeMutableRawBufferPointer(buffer))
    }
  }
}
