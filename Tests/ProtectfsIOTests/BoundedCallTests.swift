import ProtectfsIO
import SystemPackage
import Testing

/// Calls that may never return.
@Suite struct BoundedCallTests {
  @Test func returnsWhatItsBodyDoes() throws {
    #expect(try BoundedCall.result(about: "answer") { () throws(Errno) in 7 } == 7)
    #expect(throws: Errno.notSupported) {
      try BoundedCall.result(about: "answer") { () throws(Errno) -> Int in throw .notSupported }
    }
  }

  /// Who asks again is not kept waiting, and no further thread hangs; others are asked all the same.
  @Test func isWaitedForOnce() throws {
    let release = Semaphore()
    #expect(throws: Errno.timedOut) { try BoundedCall.result(about: "hung") { () throws(Errno) in release.wait() } }
    for _ in 0..<100 {
      // A call that were made would never return.
      #expect(throws: Errno.timedOut) {
        try BoundedCall.result(about: "hung") { () throws(Errno) in Issue.record("another thread hangs") }
      }
    }
    #expect(try BoundedCall.result(about: "other") { () throws(Errno) in 7 } == 7)
    release.post()
    // It has returned: the next is asked.
    while (try? BoundedCall.result(about: "hung") { () throws(Errno) in 7 }) == nil { Thread.sleep(microseconds: 1000) }
  }
}
