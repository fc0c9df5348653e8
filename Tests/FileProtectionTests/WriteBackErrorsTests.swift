import SystemPackage
import Testing

@testable import FileProtection

/// Who has a file open when its fsync(2) fails is told once.
@Suite struct WriteBackErrorsTests {
  @Test func anErrorIsNewsUntilItIsSeen() {
    var errors = WriteBackErrors()
    #expect(errors.missed(since: errors.count) == nil)
    let opened = errors.count
    errors.note(.ioError)
    #expect(errors.missed(since: opened) == .ioError)
    let seen = errors.count
    #expect(errors.missed(since: seen) == nil)
    errors.note(.noSpace)
    #expect(errors.missed(since: seen) == .noSpace)
  }

  @Test func aCallThatCouldNotBeMadeHasLostNothing() {
    var errors = WriteBackErrors()
    errors.note(.interrupted)
    errors.note(.readOnlyFileSystem)
    #expect(errors.count == 0)
  }
}
