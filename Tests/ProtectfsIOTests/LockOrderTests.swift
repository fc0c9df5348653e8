import Glibc
import ProtectfsIO
import SystemPackage
import Testing

#if DEBUG
  /// A thread that breaks the order of locks ends the process, and says which locks it was.
  @Suite struct LockOrderTests {
    /// What the process of a test has said when it was ended.
    private func message(of result: ExitTest.Result?) throws -> String {
      String(decoding: try #require(result).standardErrorContent, as: UTF8.self)
    }

    @Test func aLockIsTakenAfterThoseBeforeIt() async throws {
      let result = await #expect(processExitsWith: .signal(SIGABRT), observing: [\.standardErrorContent]) {
        let (first, second) = (ReaderWriterLock(.keyChanges), ReaderWriterLock(.contents))
        first.read { second.write {} }
        second.read { first.read {} }
      }
      #expect(try message(of: result).contains("Lock order: 'keyChanges' is taken under 'contents'"))
    }

    @Test func aLockIsNotTakenTwice() async throws {
      let result = await #expect(processExitsWith: .signal(SIGABRT), observing: [\.standardErrorContent]) {
        let lock = ReaderWriterLock(.keyChanges)
        lock.read { lock.read {} }
      }
      #expect(try message(of: result).contains("Lock order: 'keyChanges' is taken under 'keyChanges'"))
    }

    @Test func nothingIsTakenUnderALeaf() async throws {
      let result = await #expect(processExitsWith: .signal(SIGABRT), observing: [\.standardErrorContent]) {
        let first = RankedMutex(.openFiles, ())
        let second = Monitor(.rekeyQueue, ())
        first.withLock { _ in second.read { _ in } }
      }
      #expect(try message(of: result).contains("Lock order: 'rekeyQueue' is taken under 'openFiles'"))
    }

    @Test func noSystemCallIsMadeUnderAnInnerLock() async throws {
      let result = await #expect(processExitsWith: .signal(SIGABRT), observing: [\.standardErrorContent]) {
        let root = try Descriptor.open("/", [.path])
        _ = try ReaderWriterLock(.contents).read { () throws(Errno) in try root.status() }
        _ = try RankedMutex(.nodeState, ()).withLock { (_) throws(Errno) in try root.status() }
      }
      #expect(try message(of: result).contains("Lock order: linux_statx is called under 'nodeState'"))
    }

    @Test func aDescriptorIsNotClosedUnderAnInnerLock() async throws {
      let result = await #expect(processExitsWith: .signal(SIGABRT), observing: [\.standardErrorContent]) {
        let kept = RankedMutex<SharedDescriptor?>(.nodeState, SharedDescriptor(try Descriptor.open("/", [.path])))
        kept.withLock { $0 = nil }
      }
      #expect(try message(of: result).contains("Lock order: close is called under 'nodeState'"))
    }

    /// But for the lock of the monitor that is waited for, which nobody holds meanwhile.
    @Test func nothingIsWaitedForUnderAnInnerLock() async throws {
      let result = await #expect(processExitsWith: .signal(SIGABRT), observing: [\.standardErrorContent]) {
        let (state, end) = (Monitor(.lockState, false), Monitor(.rekeyQueue, false))
        let setter = Thread(name: "setter") { end.update { $0 = true } }
        end.wait { (isSet, _) -> Void? in isSet ? () : nil }
        setter.join()
        state.read { _ in Semaphore().wait() }
      }
      #expect(try message(of: result).contains("Lock order: sem_wait is called under 'lockState'"))
    }

    /// The rekey engine holds the contents of many files.
    @Test func severalFilesAreHeldAtOnce() {
      let files = (0..<300).map { _ in ReaderWriterLock(.contents) }
      for file in files { file.beginWriting() }
      for file in files { file.endWriting() }
      ReaderWriterLock(.keyChanges).write {}
    }

    /// A lock that was not had in time is not held.
    @Test func aTimedOutLockIsNotHeld() {
      let lock = ReaderWriterLock(.contents)
      let (isHeld, isDone) = (Semaphore(), Semaphore())
      let other = Thread(name: "holder") {
        lock.write {
          isHeld.post()
          isDone.wait()
        }
      }
      isHeld.wait()
      #expect(!lock.write(until: MonotonicClock.nanoseconds + 1_000_000) {})
      ReaderWriterLock(.keyChanges).write {}
      isDone.post()
      other.join()
    }
  }
#endif
