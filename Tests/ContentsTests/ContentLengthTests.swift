import ProtectfsIO
import SystemPackage
import TestVectors
import Testing

@testable import Contents

@Suite("Lengths") struct ContentLengthTests {
  struct Vector: Decodable, Sendable {
    let plain, backing: UInt64
  }

  @Test(arguments: [(ContentsLayout.units, "lengths"), (.pages(.unknown), "page-lengths")])
  func vectors(_ layout: ContentsLayout, file: String) throws {
    let vectors = try VectorFile.read("StoreFormatTests/\(file)", as: Vector.self)
    #expect(!vectors.isEmpty)
    for vector in vectors {
      #expect(layout.backingLength(for: vector.plain) == vector.backing)
      #expect(layout.length(ofBacking: vector.backing) == vector.plain)
    }
  }

  @Test func eachLengthHasItsOwnBackingLength() {
    for length in (0..<20_000).map(UInt64.init) + [ContentsLayout.units.longest] {
      let backing = ContentsLayout.units.backingLength(for: length)
      #expect(ContentsLayout.units.length(ofBacking: backing) == length)
      #expect(DataUnits.blockEnd(of: length) <= backing)
      #expect(DataUnits.blockEnd(of: length) % 16 == 0)
    }
    #expect(ContentsLayout.units.backingLength(for: ContentsLayout.units.longest) <= UInt64(Int64.max))
  }

  @Test func everyOtherBackingLengthIsRefused() {
    let possible = Set((0..<20_000).map { ContentsLayout.units.backingLength(for: UInt64($0)) })
    for backing in (0..<19_000).map(UInt64.init) {
      #expect((ContentsLayout.units.length(ofBacking: backing) != nil) == possible.contains(backing))
    }
    #expect((1...15).allSatisfy { ContentsLayout.units.length(ofBacking: $0) == nil })
  }

  @Test func theLongestIsTheLast() throws {
    try ContentsLayout.units.requirePossible(ContentsLayout.units.longest)
    #expect(throws: Errno.fileTooLarge) { try ContentsLayout.units.requirePossible(ContentsLayout.units.longest + 1) }
  }
}
