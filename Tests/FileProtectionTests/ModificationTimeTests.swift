import Contents
import ProtectfsIO
import StoreFormat
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
    _ = try file.setModificationTime({ told }) { (told) throws(Errno) in
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
    _ = try file.setModificationTime({ told }) { (told) throws(Errno) in
      try backing.descriptor.setTimes(access: .leave, modification: told)
      do { try file.write([1, 2, 3], at: 0) } catch { throw .ioError }
      file.movedModificationTime()
      return try backing.descriptor.status()
    }
    try expectTold(backing, file)
  }

  /// A program may set any time.
  @Test func theLastTimeThereIsHasNoneAfterIt() throws {
    var time = ModificationTime(.init(seconds: .max, nanoseconds: 0))
    time.beginRekey()
    #expect(!time.hasChange)
    time.rest(isShifted: false)
    #expect(time.takeChange() == .init(seconds: .max - 1, nanoseconds: 0))
  }

  /// The backing file's time tells by how much it is shifted; the time that a program sees stays.
  @Test func aRekeyShiftsTheBackingFilesTimeAlone() throws {
    let backing = try BackingFile()
    try backing.descriptor.setTimes(access: .leave, modification: told)
    var last: TimeShift?
    for second in 1...3 as ClosedRange<Int64> {
      let shift = try #require(TimeShift(after: last, of: told.time!))
      backing.record.timeShift = shift
      let file = try backing.open()
      file.movedModificationTime()
      try file.applyModificationTime()
      let time = try backing.descriptor.status().modificationTime
      #expect(time == .init(seconds: 1_000_000_000 + second, nanoseconds: UInt32(second) * 1000 + 787))
      #expect(file.shown(time) == told.time)
      // What a program has set since is as it was set, and the time from before is shifted again.
      let later = TimeShift.Time(seconds: 1_000_000_007, nanoseconds: 5)
      #expect(file.shown(later) == later && shift.backing(later) == later)
      last = shift
      try backing.descriptor.setTimes(access: .leave, modification: told)
    }
  }

  /// A time that would be taken for a shifted one is not given to a file.
  @Test func theMarkOfAShiftIsNoTimeOfItsOwn() throws {
    let shift = try #require(TimeShift(seconds: 2, nanoseconds: 5))
    let told = TimeShift.Time(seconds: 1_000_000_000, nanoseconds: 2787)
    #expect(shift.shown(shift.backing(told)) == .init(seconds: 1_000_000_000, nanoseconds: 2786))
    // Unless that is the time that users see shifted.
    let own = try #require(TimeShift(seconds: 2, nanoseconds: 2787))
    #expect(own.shown(own.backing(told)) == told)
  }

  /// What a rekey has written into the backing file's time is seen by nobody, also where it was read before the end.
  @Test func theTimeOfARekeyIsNotShown() throws {
    let backing = try BackingFile()
    try backing.descriptor.setTimes(access: .leave, modification: told)
    let file = try backing.open()
    try file.write(RekeyStep())
    let meanwhile = TimeShift.Time(seconds: 1_700_000_000, nanoseconds: 7)
    #expect(file.shown(meanwhile) == told.time)
    file.restAfterRekey(isShifted: true) { _, _ in Issue.record("it was moved") }
    #expect(file.shown(meanwhile) == told.time)
    try file.applyModificationTime()
    #expect(file.shown(meanwhile) == told.time)
  }

  @Test func aShiftHasAnEnd() {
    let most = TimeShift(seconds: TimeShift.mostSeconds, nanoseconds: 0)
    #expect(most != nil && TimeShift(after: most, of: .init(seconds: 0, nanoseconds: 0)) == nil)
    #expect(TimeShift(seconds: 0, nanoseconds: 0) == nil && TimeShift(seconds: 1, nanoseconds: 1_000_000_000) == nil)
    let end = TimeShift.Time(seconds: .max, nanoseconds: 0)
    #expect(most?.backing(end) == end)
    #expect(TimeShift.isPossible(at: .init(seconds: 0, nanoseconds: 16_383_787)))
    #expect(!TimeShift.isPossible(at: .init(seconds: 0, nanoseconds: 16_384_787)))
  }
}
