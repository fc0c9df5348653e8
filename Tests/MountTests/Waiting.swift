import Glibc

/// How long a test waits for what must come. This only ends a test that would hang: no test says how fast something is.
let patience = Duration.seconds(60)

/// Waits until something holds. Returns whether it does.
@discardableResult
func eventually(_ condition: () throws -> Bool) rethrows -> Bool {
  let deadline = ContinuousClock.now + patience
  while try !condition() {
    if ContinuousClock.now > deadline { return false }
    usleep(2000)
  }
  return true
}
