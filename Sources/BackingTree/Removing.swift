import ProtectfsIO

extension RankedMutex {
  /// Runs `body` alone with the value, and destroys what it has taken out of it when the lock is released: to close a
  /// file may take a wait for the store. Optimised code destroys a result of ``withLock(_:)`` that nobody uses under
  /// the lock.
  borrowing func removing<Removed>(_ body: (inout sending Value) -> sending Removed) {
    let removed = withLock(body)
    withExtendedLifetime(removed) {}
  }
}
