import ProtectfsLibc
import SystemPackage

/// Makes a call of the C library, again as long as signals interrupt it, and throws the error of one that fails. In
/// debug builds, the calling thread must hold no lock that forbids system calls.
@inline(__always) @discardableResult
func call<Value: SignedInteger>(_ name: StaticString, _ body: @autoclosure () -> Value) throws(Errno) -> Value {
  LockOrder.requireCallsAllowed(name)
  while true {
    let result = body()
    if result >= 0 { return result }
    if errno != EINTR { throw Errno(rawValue: errno) }
  }
}

/// The result of a wrapper in CProtectfsIO; throws the error that a negative result stands for.
@inline(__always) @discardableResult
func check<Value: SignedInteger>(_ result: Value) throws(Errno) -> Value {
  guard result >= 0 else { throw Errno(rawValue: CInt(truncatingIfNeeded: -result)) }
  return result
}
