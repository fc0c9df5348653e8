import FUSE
import ProtectfsIO
import Synchronization
import Testing

@testable import MountDaemon

/// What a lock sees of an invalidation that takes long.
@Suite struct PageInvalidationTests {
  private final class Work: Sendable {
    let isToEnd = Atomic(false)
    let begins = Semaphore()
  }

  /// The kernel drops the pages of a large file one by one, on the thread that asks, and says nothing meanwhile.
  @Test func aThreadThatWorksTakesTime() throws {
    let work = Work()
    let pages = PageInvalidation { (_, _) in while !work.isToEnd.load(ordering: .relaxed) {} }
    defer { pages.stop() }
    let batch = pages.begin([NodeID(rawValue: 7)])
    for _ in 0..<3 {
      let before = batch.processorTime
      while batch.processorTime == before { Thread.sleep(microseconds: 1000) }
    }
    #expect(batch.unfinished == [NodeID(rawValue: 7)])
    work.isToEnd.store(true, ordering: .relaxed)
    while !batch.isDone { Thread.sleep(microseconds: 1000) }
  }

  /// One that waits for the store does not.
  @Test func aThreadThatWaitsTakesNone() throws {
    let (work, goesOn) = (Work(), Semaphore())
    let pages = PageInvalidation { (_, _) in
      work.begins.post()
      goesOn.wait()
    }
    defer { pages.stop() }
    let batch = pages.begin([NodeID(rawValue: 7)])
    work.begins.wait()
    // The thread may be on its way into the wait.
    var (before, same) = (batch.processorTime, 0)
    while same < 100 {
      Thread.sleep(microseconds: 1000)
      (before, same) = batch.processorTime == before ? (before, same + 1) : (batch.processorTime, 0)
    }
    goesOn.post()
    while !batch.isDone { Thread.sleep(microseconds: 1000) }
  }
}
