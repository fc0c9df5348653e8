import SystemPackage
import Testing

@testable import FileProtection

/// Each process that had the file open when the backing file's fsync(2) failed is told once.
@Suite struct WriteBackErrorsTests {
  @Test func everyProcessIsToldOnce() {
    var errors = WriteBackErrors()
    let opened = errors.count
    errors.note(.ioError, to: 1)
    #expect(errors.take(for: 1, since: opened) == nil, "it got the error from its own call")
    #expect(errors.take(for: 2, since: opened) == .ioError)
    #expect(errors.take(for: 2, since: opened) == nil)
    #expect(errors.take(for: 3, since: errors.count) == nil, "it has opened the file since")
  }

  @Test func anErrorOfTheRekeyEngineIsEveryones() {
    var errors = WriteBackErrors()
    let opened = errors.count
    errors.note(.noSpace, to: nil)
    #expect(errors.take(for: 1, since: opened) == .noSpace)
    #expect(errors.take(for: 1, since: opened) == nil)
  }

  @Test func aSecondErrorIsNews() {
    var errors = WriteBackErrors()
    let opened = errors.count
    errors.note(.ioError, to: 1)
    let between = errors.count
    errors.note(.noSpace, to: 2)
    #expect(errors.take(for: 1, since: opened) == .noSpace)
    #expect(errors.take(for: 3, since: between) == .noSpace)
  }
}
