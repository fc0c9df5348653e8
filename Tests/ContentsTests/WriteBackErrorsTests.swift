import Synchronization
import SystemPackage
import Testing

@testable import Contents

/// Who has a file open when its fsync(2) fails is told once.
@Suite struct WriteBackErrorsTests {
  @Test func anErrorIsNewsUntilItIsSeen() {
    var errors = WriteBackErrors()
    #expect(errors.missed(since: errors.count) == nil)
    let opened = errors.count
    errors = errors.noting(.ioError)
    #expect(errors.missed(since: opened) == .ioError)
    let seen = errors.count
    #expect(errors.missed(since: seen) == nil)
    errors = errors.noting(.noSpace)
    #expect(errors.missed(since: seen) == .noSpace)
  }

  @Test func aCallThatCouldNotBeMadeHasLostNothing() {
    let errors = WriteBackErrors().noting(.interrupted).noting(.readOnlyFileSystem)
    #expect(errors.count == 0)
  }

  /// A handle that has seen the last number that there is.
  @Test func theNumberBeginsAnew() {
    let errors = WriteBackErrors(rawValue: .max).noting(.noSpace)
    #expect(errors.count == 0 && errors.missed(since: .max) == .noSpace)
  }

  @Test func noErrorIsLostToAnother() async {
    let errors = SharedErrors()
    await withTaskGroup { group in
      for _ in 0..<4 { group.addTask { for _ in 0..<1000 { errors.value.note(.ioError) } } }
    }
    #expect(errors.value.load(ordering: .relaxed).count == 4000)
  }
}

private final class SharedErrors: Sendable {
  let value = Atomic(WriteBackErrors())
}
