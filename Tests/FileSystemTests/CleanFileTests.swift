import Contents
import ProtectfsIO
import SimulatedDisk
import StoreCheck
import StoreFormat
import SystemPackage
import Testing

/// Marks of clean files: what they say of the contents of a closed file, and who notices that it is not so.
@Suite("Clean files") struct CleanFileTests {
  /// A store with one file, `a`, and a daemon.
  private final class Fixture {
    let store: SimulatedMount.Store
    var mount: SimulatedMount

    init() throws {
      store = try SimulatedMount.Store.authenticated.get()
      mount = try SimulatedMount(store)
    }

    /// Begins anew, as the next mount.
    func remount(isReadOnly: Bool = false) throws {
      mount = try SimulatedMount(store, isReadOnly: isReadOnly)
    }

    /// The only backing file, as whoever has the disk opens it.
    func backing() throws -> Descriptor {
      let directory = try SimulatedMount.backing()
      let name = try #require(
        directory.names().first { try directory.status(of: $0).type == .regular })
      return try directory.open(name, [.readWrite])
    }

    /// The marks in its record.
    func marks() throws -> [String] {
      let version = try backing().attribute(PathName(FileRecord.attributeName))[0]
      return (version & 0x20 != 0 ? ["clean"] : []) + (version & 0x10 != 0 ? ["dense"] : [])
    }

    func errors(_ options: StoreCheck.Options = []) throws -> [String] {
      try SimulatedMount.errors(in: store, options)
    }

    func contents() throws -> [UInt8] { try mount.contents("a") }
  }

  private static func run(_ body: (Fixture) throws -> Void) throws {
    let disk = try SimulatedDisk(SimulatedMount.Store.authenticated.get().image)
    try disk.run {
      try body(Fixture())
    }
  }

  private static let contents = SimulatedCall.text("contents", 20_000)

  /// From when the contents are durable to before the next change.
  @Test func theMarkComesAndGoes() throws {
    try Self.run { fixture in
      try fixture.mount.create("a", Self.contents)
      #expect(try fixture.marks() == [])
      fixture.mount.clean()
      #expect(try fixture.marks() == ["clean", "dense"])
      #expect(try fixture.contents().starts(with: Self.contents))
      // Neither another class nor other times are another content, and what is only read stays clean.
      try fixture.mount.setClass(of: "a", to: .complete)
      try fixture.mount.setMode(of: "a", to: 0o640)
      try fixture.mount.synchronize("a")
      #expect(try fixture.marks() == ["clean", "dense"])
      let changes: [((SimulatedMount) throws -> Void, isDense: Bool)] = [
        ({ try $0.write([1], at: 5000, to: "a") }, true), ({ try $0.write([1], at: 20_000, to: "a") }, true),
        ({ try $0.write([1], at: 30_000, to: "a") }, false), ({ try $0.truncate("a", to: 7000) }, false),
        ({ try $0.openTruncating("a") }, true), ({ try $0.write(Self.contents, at: 0, to: "a") }, true),
        ({ try $0.truncate("a", to: 7000) }, true), ({ try $0.truncate("a", to: 8000) }, false),
        ({ try $0.openTruncating("a") }, true), ({ try $0.write(Self.contents, at: 0, to: "a") }, true),
        ({ try $0.copy("a", 3, to: "a", at: 100) }, true), ({ try $0.allocate([], 0..<40_000, of: "a") }, false),
      ]
      for (change, isDense) in changes {
        try change(fixture.mount)
        #expect(try fixture.marks().isEmpty)
        fixture.mount.clean()
        #expect(try fixture.marks() == (isDense ? ["clean", "dense"] : ["clean"]))
        let before = try fixture.contents()
        try fixture.remount()
        #expect(try fixture.contents() == before)
        #expect(try fixture.errors().isEmpty)
      }
      try fixture.mount.allocate([.punchHole, .keepSize], 4096..<8192, of: "a")
      fixture.mount.clean()
      #expect(try fixture.marks() == ["clean"])
      #expect(try fixture.contents()[4096..<8192].allSatisfy { $0 == 0 })
    }
  }

  /// A file that was changed since it was closed is not made clean for what it was; one that is only open is, and
  /// changes like any other.
  @Test func whatWasUsedSinceIsLeftAlone() throws {
    try Self.run { fixture in
      try fixture.mount.create("a", Self.contents)
      try fixture.mount.write([1], at: 40_000, to: "a")
      try fixture.mount.open("a") { () throws in
        fixture.mount.clean()
        #expect(try fixture.marks() == ["clean"])
        try fixture.mount.write([1], at: 45_000, to: "a")
        fixture.mount.clean()
        #expect(try fixture.marks().isEmpty)
      }
      fixture.mount.clean()
      #expect(try fixture.marks() == ["clean"])
      #expect(try fixture.contents().count > 40_000)
      try fixture.mount.write([1], at: 50_000, to: "a")
      try fixture.mount.unlink("a")
      fixture.mount.clean()
    }
  }

  /// A page without an end gets one by a growth, and no ends page with it.
  @Test func sparseFilesNeedNoEndsPage() throws {
    try Self.run { fixture in
      try fixture.mount.create("a", [])
      try fixture.mount.truncate("a", to: 12_388)
      try fixture.mount.write(SimulatedCall.text("end", 50), at: 12_288, to: "a")
      try fixture.mount.truncate("a", to: 20_000)
      fixture.mount.clean()
      try fixture.remount()
      #expect(try fixture.contents()[12_288...].starts(with: SimulatedCall.text("end", 50)))
    }
  }

  /// Several threads write what a program wrote: a page may come before the one ahead of it.
  @Test func theOrderOfWritesDoesNotMatter() throws {
    let page = SimulatedCall.text("page", 4096)
    let orders: [([UInt64], isDense: Bool)] = [
      ([0, 1, 2, 3, 4], true), ([1, 0, 2, 4, 3], true), ([4, 3, 2, 1, 0], true), ([4, 0, 1, 2, 3], true),
      ([0, 4, 1, 3, 2], true), ([0, 4, 1, 2], false), ([1, 3, 0, 2, 4], false), ([4, 2, 0, 1, 3], false),
    ]
    for (order, isDense) in orders {
      try Self.run { fixture in
        try fixture.mount.create("a", [])
        try fixture.mount.open("a") { () throws in
          for number in order { try fixture.mount.write(page, at: number * 4096, to: "a") }
        }
        fixture.mount.clean()
        #expect(try fixture.marks() == (isDense ? ["clean", "dense"] : ["clean"]), "\(order)")
        try fixture.remount()
        let contents = try fixture.contents()
        for number in order {
          #expect(contents[Int(number) * 4096..<Int(number + 1) * 4096] == page[...])
        }
      }
    }
  }

  /// What whoever has the disk does to a file that is not clean yet is not taken for a program's.
  @Test func anotherLengthIsNotMadeClean() throws {
    try Self.run { fixture in
      try fixture.mount.create("a", Self.contents)
      try Attack.cutWholePages.make(fixture.backing())
      fixture.mount.clean()
      #expect(try fixture.marks().isEmpty)
    }
  }

  /// New keys keep the mark, and what it says stays true.
  @Test func newKeysKeepTheMark() throws {
    try Self.run { fixture in
      try fixture.mount.create("a", Self.contents)
      fixture.mount.clean()
      try fixture.mount.rotate(.standard)
      #expect(try fixture.marks() == ["clean", "dense"])
      try fixture.mount.setClass(of: "a", to: .complete)
      fixture.mount.rekey()
      try fixture.remount()
      #expect(try fixture.contents().starts(with: Self.contents))
      #expect(try fixture.errors().isEmpty)
    }
  }

  /// What whoever has the disk does to a file, and whether that is noticed in one that is clean.
  enum Attack: CaseIterable {
    case cut, cutWholePages, extend, zeroPage, zeroEnds

    func make(_ file: borrowing Descriptor) throws {
      let size = try file.status().size
      switch self {
      case .cut: try file.truncate(to: size - 7)
      case .cutWholePages: try file.truncate(to: ContentsLayout.pages(.unknown).backingLength(for: 8192))
      case .extend: try file.truncate(to: ContentsLayout.pages(.unknown).backingLength(for: 30_000))
      case .zeroPage: try file.allocate([.punchHole, .keepSize], offset: 8192, length: 4096)
      case .zeroEnds: try file.allocate([.punchHole, .keepSize], offset: 4096, length: 4096)
      }
    }
  }

  @Test(arguments: Attack.allCases, [false, true]) func attacksAreNoticed(_ attack: Attack, isReadOnly: Bool) throws {
    try Self.run { fixture in
      try fixture.mount.create("a", Self.contents)
      fixture.mount.clean()
      try fixture.remount(isReadOnly: isReadOnly)
      #expect(try fixture.contents().starts(with: Self.contents))
      #expect(try fixture.errors(.contents).isEmpty)
      try attack.make(fixture.backing())
      try fixture.remount(isReadOnly: isReadOnly)
      #expect(throws: Errno.ioError) { try fixture.contents() }
      let changesLength = attack != .zeroPage && attack != .zeroEnds
      #expect(try fixture.errors() == (changesLength ? ["length-altered"] : []))
      #expect(
        try fixture.errors(.contents) == [changesLength ? "length-altered" : "contents-damaged"])
    }
  }

  /// A copy of a store that was made while a file was written may have its record of before: `fsck` is told to believe
  /// its length.
  @Test func aLengthCanBeAccepted() throws {
    try Self.run { fixture in
      try fixture.mount.create("a", Self.contents)
      fixture.mount.clean()
      try Attack.cutWholePages.make(fixture.backing())
      try fixture.remount()
      #expect(throws: Errno.ioError) { try fixture.contents() }
      #expect(try fixture.errors([.contents, .repairs, .acceptsLengths]) == ["length-altered"])
      #expect(try fixture.errors(.contents).isEmpty)
      try fixture.remount()
      #expect(try fixture.contents().starts(with: Self.contents[..<8192]))
      #expect(try fixture.marks().isEmpty)
      // Anybody can make a key of class B.
      try fixture.mount.setClass(of: "a", to: .completeUnlessOpen)
      fixture.mount.rekey()
      try fixture.mount.write([1], at: 0, to: "a")
      fixture.mount.clean()
      try fixture.backing().truncate(to: 4097)
      #expect(try fixture.errors([.repairs, .acceptsLengths]) == ["length-altered"])
      #expect(try fixture.errors([.contents, .repairs, .acceptsLengths]) == ["length-altered"])
      #expect(try fixture.errors() == ["length-altered"])
    }
  }

  /// A program that has the file open, and has changed it, finds a hole all the same, and does not write over one.
  @Test func holesAreNoticedWhileAFileIsOpen() throws {
    try Self.run { fixture in
      try fixture.mount.create("a", Self.contents)
      // What was known at the close is known at the next open.
      try fixture.mount.write([1], at: 20_000, to: "a")
      fixture.mount.clean()
      #expect(try fixture.marks() == ["clean", "dense"])
      try fixture.mount.open("a") { () throws in
        try fixture.mount.write([1], at: 100, to: "a")
        try Attack.zeroPage.make(fixture.backing())
        #expect(throws: Errno.ioError) { try fixture.contents() }
        #expect(throws: Errno.ioError) { try fixture.mount.write([1], at: 5000, to: "a") }
        try Attack.zeroEnds.make(fixture.backing())
        #expect(throws: Errno.ioError) { try fixture.mount.write([1], at: 4090, to: "a") }
      }
    }
  }

  /// A file that is not clean: what a page's tag shows, and no more.
  @Test func whatIsNotNoticed() throws {
    try Self.run { fixture in
      try fixture.mount.create("a", Self.contents)
      try Attack.cutWholePages.make(fixture.backing())
      try fixture.remount()
      #expect(try fixture.contents().starts(with: Self.contents[..<8192]))
    }
  }
}
