#if DEBUG
  import Synchronization

  /// Random bytes of a test's own, in the place of libcrypto's: with those from a seed, the same calls leave the same
  /// bytes in a store.
  package final class RandomSource: Sendable {
    /// What stands for the generator in what the calling thread of a test does; `nil` for libcrypto's own.
    @TaskLocal package static var simulated: RandomSource?

    private let generator: Mutex<any RandomNumberGenerator & Sendable>

    package init(_ generator: any RandomNumberGenerator & Sendable) { self.generator = Mutex(generator) }

    /// Calls `body`, for which random bytes come from here, on this thread.
    package func run<Result: ~Copyable, Failure: Error>(
      _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
      var result: Swift.Result<Result, Failure>?
      Self.$simulated.withValue(self) {
        result = Swift.Result { () throws(Failure) in try body() }
      }
      return try result.take()!.get()
    }

    package func fill(_ buffer: UnsafeMutableRawBufferPointer) {
      generator.withLock { generator in
        for index in buffer.indices { unsafe buffer[index] = UInt8.random(in: .min ... .max, using: &generator) }
      }
    }
  }
#endif
