import Cryptography
import Testing

@testable import Contents

@Suite("Lengths and places of pages") struct PageLayoutTests {
  /// Lengths around the ends of pages, in the first groups and the last.
  private static let lengths: [UInt64] = {
    let groups: [UInt64] = [0, 1, 2, 17, PageLayout.longest / PageLayout.groupLength - 1]
    let pages: [UInt64] = [0, 1, 2, 3, 125, 126]
    let rests: [UInt64] = [0, 1, 15, 4063, 4064, 4065, 4095]
    var lengths = [PageLayout.longest]
    for group in groups {
      for page in pages {
        let start: UInt64 = group * PageLayout.groupLength + page * 4096
        lengths += rests.map { start + $0 }
      }
    }
    return lengths
  }()

  @Test func eachLengthHasItsOwnBackingLength() {
    var backing: Set<UInt64> = []
    for length in Self.lengths {
      let found = PageLayout.backingLength(for: length)
      backing.insert(found)
      #expect(PageLayout.length(ofBacking: found) == length)
      // All pages are in the file, and its end is behind them.
      guard length > 0 else { continue }
      let last = (length - 1) / 4096
      #expect((PageLayout.backingPage(of: last) + 1) * 4096 <= found)
      if last % 127 == 0, length % 4096 > 4064 || length % 4096 == 0 {
        #expect((PageLayout.endsPage(of: PageLayout.group(of: last)) + 1) * 4096 <= found)
      }
    }
    #expect(backing.count == Set(Self.lengths).count)
    #expect(backing.max()! <= UInt64(Int64.max))
  }

  @Test func everyOtherBackingLengthIsRefused() {
    let possible = Set((0...30_000).map { PageLayout.backingLength(for: UInt64($0)) })
    for backing in 0...(30_000 as UInt64) {
      #expect((PageLayout.length(ofBacking: backing) != nil) == possible.contains(backing), "\(backing)")
    }
    // Behind the first group, an ends page alone.
    for group in 1...3 as ClosedRange<UInt64> {
      let start = group * PageLayout.backingGroupLength
      for rest in [4096, 4096 + 4065, 8191, 8193, 8192 + 4064] as [UInt64] {
        #expect(PageLayout.length(ofBacking: start + rest) == nil, "\(group), \(rest)")
      }
    }
  }

  @Test func pagesHavePlacesOfTheirOwn() {
    var numbers: Set<UInt64> = []
    for page in 0..<(3 * 127) as Range<UInt64> {
      let number = PageLayout.backingPage(of: page)
      #expect(PageLayout.kind(of: number) == .data)
      #expect(PageLayout.page(ofBacking: number) == page)
      numbers.insert(number)
    }
    for group in 0..<3 as Range<UInt64> {
      let number = PageLayout.endsPage(of: group)
      #expect(PageLayout.kind(of: number) == .ends)
      #expect(PageLayout.page(ofBacking: number) == group * 127 + 1)
      numbers.insert(number)
    }
    #expect(numbers == Set(0..<3 * 128))
    #expect((0..<127).flatMap { PageLayout.end(of: $0) } == Array(0..<4064))
  }
}
