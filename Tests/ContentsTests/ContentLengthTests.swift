import ProtectfsIO
import SystemPackage
import TestVectors
import Testing

@testable import Contents

@Suite("Lengths") struct ContentLengthTests {
  struct Vector: Decodable, Sendable {
    let plain, backing: UInt64
  }

  @Test(arguments: try VectorFile.read("StoreFormatTests/lengths", as: Vector.self))
  func vector(_ vector: Vector) {
    #expect(FileContents.backingLength(for: vector.plain) == vector.backing)
    #expect(FileContents.length(ofBacking: vector.backing) == vector.plain)
  }

  @Test func eachLengthHasItsOwnBackingLength() {
    for length in (0..<20_000).map(UInt64.init) + [FileContents.longest] {
      let backing = FileContents.backingLength(for: length)
      #expect(FileContents.length(ofBacking: backing) == length)
      #expect(DataUnits.blockEnd(of: length) <= backing)
      #expect(DataUnits.blockEnd(of: length) % 16 == 0)
    }
    #expect(FileContents.backingLength(for: FileContents.longest) <= UInt64(Int64.max))
  }

  @Test func everyOtherBackingLengthIsRefused() {
    let possible = Set((0..<20_000).map { FileContents.backingLength(for: UInt64($0)) })
    for backing in (0..<19_000).map(UInt64.init) {
      #expect((FileContents.length(ofBacking: backing) != nil) == possible.contains(backing))
    }
    #expect((1...15).allSatisfy { FileContents.length(ofBacking: $0) == nil })
  }

  @Test func theLongestIsTheLast() throws {
    try FileContents.requirePossible(FileContents.longest)
    #expect(throws: Errno.fileTooLarge) { try FileContents.requirePossible(FileContents.longest + 1) }
  }
}
