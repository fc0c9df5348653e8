import ProtectfsIO
import SystemPackage
import Testing

@testable import FileProtection

/// The modification time that a backing file has in the end: the kernel's.
@Suite struct ModificationTimeTests {
  private let told = TimeChange.set(seconds: 1_000_000_000, nanoseconds: 123_456_789)

  private func expectTold(_ backing: BackingFile, _ file: ProtectedFile) throws {
    try file.applyModificationTime()
    let status = try backing.descriptor.status()
    #expect(status.modification_seconds == 1_000_000_000 && status.modification_nanoseconds == 123_456_789)
  }

  @Test func writesDoNotMoveIt() throws {
    let backing = try BackingFile()
    let file = try backing.open()
    _ = try file.setModificationTime(told) { () throws(Errno) in
      try backing.descriptor.setTimes(access: .leave, modification: told)
      return try backing.descriptor.status()
    }
    try file.write([1, 2, 3], at: 0)
    file.movedModificationTime()
    try expectTold(backing, file)
  }

  /// Pages are written back while the kernel sends the time: the write comes between setting the time and reading it.
  @Test func aWriteAtTheSameTimeIsNotTakenForIt() throws {
    let backing = try BackingFile()
    let file = try backing.open()
    _ = try file.setModificationTime(told) { () throws(Errno) in
      try backing.descriptor.setTimes(access: .leave, modification: told)
      do { try file.write([1, 2, 3], at: 0) } catch { throw .ioError }
      file.movedModificationTime()
      return try backing.descriptor.status()
    }
    try expectTold(backing, file)
  }

  /// A program may set any time.
  @Test func theLastTimeThereIsHasNoneAfterIt() throws {
    var status = Status()
    status.modification_seconds = .max
    var time = ModificationTime(status)
    time.beginRekey()
    let rest = time.rest()
    let times = try #require(rest)
    guard case .set(let kernel, _) = times.kernel, case .set(let backing, _) = times.backing else {
      Issue.record("neither is left alone")
      return
    }
    #expect(kernel == .max && backing == .max - 1)
  }
}
