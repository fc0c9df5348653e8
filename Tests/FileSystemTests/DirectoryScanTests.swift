import ProtectfsIO
import Testing

@testable import BackingTree

/// Which files a program will read next that reads those of a directory one after another.
@Suite struct DirectoryScanTests {
  private typealias Entry = DirectoryScan.Entry

  /// A directory whose listing has another order than its inode numbers.
  private static let inodes: [UInt64] = (0..<200).map { $0 * 77 % 200 + 1000 }
  private static let listing = inodes.map { Entry(name: PathName("\($0)"), inode: $0) }

  private static func order(_ order: DirectoryScan.Order) -> [UInt64] { sorted(order).map(\.inode) }

  private static func sorted(_ order: DirectoryScan.Order) -> [Entry] {
    switch order {
    case .inodes: listing.sorted { $0.inode < $1.inode }
    case .listing: listing
    case .names: listing.sorted { $0.inode % 13 < $1.inode % 13 }
    }
  }

  /// A scan after a program has waited for the first files.
  private func begun(_ waits: some Sequence<UInt64>, expected: DirectoryScan.Order? = nil) -> DirectoryScan? {
    var scan = DirectoryScan()
    var isDue = false
    for inode in waits { isDue = scan.waited(for: inode, expected: expected) || isDue }
    guard isDue else { return nil }
    scan.beginLoading(expected: expected)
    if !DirectoryScan.Order.allCases.contains(where: { scan.load(Self.sorted($0), in: $0) }) { scan.giveUp() }
    return scan
  }

  @Test(arguments: DirectoryScan.Order.allCases)
  func staysAheadInAnyOrder(_ order: DirectoryScan.Order) throws {
    let files = Self.order(order)
    var scan = try #require(begun(files[..<3]))
    #expect(scan.order == order)
    var ahead = scan.takeNext().map(\.inode)
    #expect(ahead == Array(files[3..<3 + DirectoryScan.width]))
    for (index, file) in files.enumerated().dropFirst(3) {
      #expect(ahead.contains(file))
      if scan.opened(file) { ahead += scan.takeNext().map(\.inode) }
      #expect(ahead.count <= index - 3 + 1 + DirectoryScan.width)
    }
    #expect(ahead == Array(files[3...]))
    #expect(scan.isOver && scan.isFruitful)
  }

  @Test func filesThatAreLeftOutDoNotEndIt() throws {
    let files = Self.order(.listing)
    var scan = try #require(begun([0, 2, 4].map { files[$0] }))
    var ahead = scan.takeNext().map(\.inode)
    for index in stride(from: 6, to: 200, by: 2) {
      #expect(ahead.contains(files[index]))
      if scan.opened(files[index]) { ahead += scan.takeNext().map(\.inode) }
    }
    #expect(scan.isOver || scan.isRunning)
  }

  /// Nothing is read ahead of who reads here and there, nor of who stops to read on.
  @Test func othersAreLeftAlone() throws {
    let files = Self.order(.inodes)
    let random = try #require(begun([files[0], files[100], files[50]]))
    #expect(!random.isRunning && random.order == nil)
    #expect(begun(files[..<2]) == nil)
    #expect(begun([files[0], files[0], files[0]]) == nil)

    var scan = try #require(begun(files[..<3]))
    #expect(scan.takeNext().count == DirectoryScan.width)
    #expect(scan.takeNext().isEmpty)
    for number in 0...UInt64(DirectoryScan.width) { _ = scan.opened(number) }
    #expect(!scan.isRunning)
    #expect(scan.takeNext().isEmpty)
    // It is not tried again at once.
    let dues = files[..<80].map { scan.waited(for: $0, expected: .inodes) }
    #expect(!dues[..<60].contains(true) && dues[60...].contains(true))
  }

  /// The order that one directory was read in says no more about the next after it was wrong there.
  @Test func aWrongExpectationIsGivenUp() throws {
    let files = Self.order(.inodes)
    var scan = try #require(begun(files[..<1], expected: .listing))
    #expect(scan.isRunning && !scan.isGivenUp)
    _ = scan.takeNext()
    for number in 0..<UInt64(2 * DirectoryScan.width) { _ = scan.opened(number) }
    #expect(scan.isGivenUp && scan.order == nil)
    let dues = files[..<80].map { scan.waited(for: $0, expected: nil) }
    #expect(dues.contains(true) && !scan.isGivenUp)
    scan.beginLoading(expected: nil)
    let isInOrder = scan.load(Self.sorted(.inodes), in: .inodes)
    #expect(isInOrder)
  }

  /// Its listing is long, and would be read again and again.
  @Test func aLargeDirectoryIsListedEverMoreRarely() {
    var scan = DirectoryScan()
    var listings = 0
    for inode in 0..<UInt64(20_000) where scan.waited(for: inode, expected: nil) {
      listings += 1
      scan.beginLoading(expected: nil)
      scan.giveUp()
    }
    #expect((4...10).contains(listings))
  }

  @Test func anExpectedOrderNeedsOneFileOnly() throws {
    let files = Self.order(.listing)
    var scan = try #require(begun(files[9...9], expected: .listing))
    #expect(scan.takeNext().first?.inode == files[10])
    #expect(!(try #require(begun([1], expected: .listing))).isRunning)
  }
}
