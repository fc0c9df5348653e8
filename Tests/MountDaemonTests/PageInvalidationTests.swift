import FUSE
import ProtectfsIO
import Testing

@testable import MountDaemon

/// What a lock sees of an invalidation that takes long.
@Suite struct PageInvalidationTests {
  /// The kernel drops the pages of a large file one by one, on the thread that asks, and says nothing meanwhile. That
  /// thread has a processor. One that waits for the store has none, however long others have.
  @Test func theTimeOfAThreadThatWorksCounts() throws {
    let (hasWorked, goesOn) = (Semaphore(), Semaphore())
    let pages = PageInvalidation { (_, _) in
      let clock = Thread.ProcessorClock()
      while clock.milliseconds < 20 {}
      hasWorked.post()
      goesOn.wait()
    }
    defer { pages.stop() }
    let batch = pages.begin([NodeID(rawValue: 7)])
    hasWorked.wait()
    #expect(batch.processorTime >= 20)
    let own = Thread.ProcessorClock()
    let before = batch.processorTime
    while own.milliseconds < 200 {}
    #expect(batch.processorTime < before + 100)
    #expect(batch.unfinished == [NodeID(rawValue: 7)])
    goesOn.post()
    #expect(batch.wait(microseconds: 60_000_000) && batch.isDone)
    #expect(batch.processorTime == 0)
  }
}
