import Contents
import Contract
import Cryptography
import Foundation
import KeyManagement
import ProtectfsIO
import ProtectfsPolicy
import SimulatedDisk
import StoreFormat
import SystemPackage
import Testing

/// What who writes the backing directory can do to what programs read: the table in SECURITY.md.
@Suite("Attacks on contents") struct AttackTableTests {
  private static let earlier = SimulatedCall.text("earlier", 20_000)
  private static let current = SimulatedCall.text("current", 20_000)
  private static let other = SimulatedCall.text("other", 20_000)

  /// A backing file as it was.
  private struct Copy {
    let bytes: [UInt8]
    let record: [UInt8]

    init(_ file: borrowing Descriptor) throws {
      bytes = try file.readAll(limit: 1 << 20)
      record = try file.attribute(PathName(FileRecord.attributeName))
    }

    func put(into file: borrowing Descriptor) throws {
      try file.truncate(to: UInt64(bytes.count))
      try file.write(bytes, at: 0)
    }
  }

  /// A store with the files `a`, which has other contents than it had before, and `b`, the links `s` and `t`, and the
  /// directory `d`, which has another class than it had before, as the store has another passcode.
  private final class Fixture {
    let store: SimulatedMount.Store
    private(set) var mount: SimulatedMount
    private let names: [String: PathName]
    let layout: ContentsLayout
    let before, after: Copy
    let directoryRecord: [UInt8]
    let storeBefore: DiskImage
    private let keysBefore: [PathName: [UInt8]]

    init(on disk: SimulatedDisk, authenticatesContents: Bool, isClosed: Bool) throws {
      store = try SimulatedMount.Store.kept(authenticatesContents: authenticatesContents)
      layout = authenticatesContents ? .pages(.unknown) : .units
      let mount = try SimulatedMount(store)
      let root = try SimulatedMount.backing()
      var names: [String: PathName] = [:]
      func add(_ name: String, _ make: () throws -> Void) throws {
        let known = try Set(root.names())
        try make()
        names[name] = try root.names().first { !known.contains($0) }
      }
      try add("a") { try mount.create("a", AttackTableTests.earlier) }
      try add("b") { try mount.create("b", AttackTableTests.other) }
      try add("s") { try mount.makeSymbolicLink("s", to: "one") }
      try add("t") { try mount.makeSymbolicLink("t", to: "two") }
      try add("d") { try mount.makeDirectory("d") }
      mount.clean()
      before = try Copy(root.open(names["a"]!, [.readWrite]))
      directoryRecord = try root.open(names["d"]!, [.readOnly, .directory])
        .attribute(PathName(DirectoryRecord.attributeName))
      storeBefore = disk.image
      keysBefore = try Dictionary(
        uniqueKeysWithValues: Self.keyFiles.map { ($0, try Self.keys().open($0, [.readOnly]).readAll(limit: 1 << 20)) })
      try store.changePasscode(to: "another")
      try mount.write(AttackTableTests.current, at: 0, to: "a")
      try mount.setClass(of: "d", to: .complete)
      if isClosed { mount.clean() }
      after = try Copy(root.open(names["a"]!, [.readWrite]))
      (self.mount, self.names) = (mount, names)
    }

    func backing(_ name: String) throws -> Descriptor { try SimulatedMount.backing().open(names[name]!, [.readWrite]) }

    func backingName(_ name: String) -> PathName { names[name]! }

    /// Where a page of the contents begins in the backing file.
    func offset(ofPage page: Int) -> UInt64 {
      UInt64(layout.isAuthenticated && page > 0 ? page + 1 : page) * 4096
    }

    /// The files with the store's keys, the one with the effaceable secret last.
    static let keyFiles: [PathName] = ["keybag", "keybag.previous", "effaceable"]

    private static func keys() throws -> Descriptor {
      try SimulatedMount.backing().open(PathName(NameEncoding.storeDirectory), [.readOnly, .directory])
    }

    func putBack(_ files: some Sequence<PathName>) throws {
      for name in files { try Self.keys().open(name, [.readWrite]).write(keysBefore[name]!, at: 0) }
    }

    func remount() throws { mount = try SimulatedMount(store) }
  }

  private struct Attack: Sendable {
    let name: String
    /// Whether the file was closed, and is not being written.
    var isClosed = true
    /// Whether everything is put back.
    var isOfAll = false
    var make: @Sendable (Fixture) throws -> Void = { _ in }
    /// What programs get; by default, what `a` has.
    var result: @Sendable (Fixture) throws -> String = { try AttackTableTests.state(of: "a", $0) }
  }

  private static let attacks: [Attack] = [
    Attack(name: "a bit is changed") { fixture in
      let file = try fixture.backing("a")
      let offset = fixture.offset(ofPage: 2) + 100
      try file.write([fixture.after.bytes[Int(offset)] ^ 1], at: offset)
    },
    Attack(name: "a page of 4096 bytes is made zeros") { try zero($0) },
    Attack(name: "a page is put in another's place") { fixture in
      let from = Int(fixture.offset(ofPage: 3))
      try fixture.backing("a").write(Array(fixture.after.bytes[from..<from + 4096]), at: fixture.offset(ofPage: 2))
    },
    Attack(name: "a page of another file is put in its place") { fixture in
      let page = try fixture.backing("b").readAll(from: fixture.offset(ofPage: 2), limit: 4096)
      try fixture.backing("a").write(page, at: fixture.offset(ofPage: 2))
    },
    Attack(name: "half a page is as it was before") { fixture in
      let start = Int(fixture.offset(ofPage: 2))
      try fixture.backing("a").write(Array(fixture.before.bytes[start..<start + 2048]), at: UInt64(start))
    },
    Attack(name: "a page is as it was before") { fixture in
      let start = Int(fixture.offset(ofPage: 2))
      try fixture.backing("a").write(Array(fixture.before.bytes[start..<start + 4096]), at: UInt64(start))
    },
    Attack(name: "the file is cut") { try resize($0, to: 8192) },
    Attack(name: "the file is extended") { try resize($0, to: 30_000) },
    Attack(name: "the contents of two files are exchanged") { fixture in
      let a = try fixture.backing("a")
      let b = try fixture.backing("b")
      let copy = try Copy(b)
      try fixture.after.put(into: b)
      try copy.put(into: a)
    },
    Attack(name: "a page of a file that is being written is made zeros", isClosed: false) { try zero($0) },
    Attack(name: "a file that is being written is cut", isClosed: false) { try resize($0, to: 8192) },
    Attack(name: "a file that is being written is extended", isClosed: false) { try resize($0, to: 30_000) },
    Attack(name: "all contents are as they were before") { try $0.before.put(into: $0.backing("a")) },
    Attack(name: "the file is as it was before, with its record") { fixture in
      let file = try fixture.backing("a")
      try fixture.before.put(into: file)
      try file.setAttribute(PathName(FileRecord.attributeName), to: fixture.before.record)
    },
    Attack(name: "two files are exchanged") { fixture in
      let root = try SimulatedMount.backing()
      let (a, b) = (fixture.backingName("a"), fixture.backingName("b"))
      try root.rename(a, to: b, in: root, flags: [.exchange])
    },
    Attack(
      name: "the targets of two links are exchanged",
      make: { fixture in
        let root = try SimulatedMount.backing()
        try root.rename(fixture.backingName("s"), to: fixture.backingName("t"), in: root, flags: [.exchange])
      },
      result: { fixture in
        let target = String(decoding: try fixture.mount.contents("s"), as: UTF8.self)
        return target == "two" ? "that of the other" : target == "one" ? "nothing changes" : "garbage"
      }),
    Attack(
      name: "the record of a directory is as it was before",
      make: { fixture in
        try SimulatedMount.backing().open(fixture.backingName("d"), [.readOnly, .directory])
          .setAttribute(PathName(DirectoryRecord.attributeName), to: fixture.directoryRecord)
      },
      result: { fixture in
        try fixture.mount.create("d/x", [])
        let fileClass = String(decoding: try fixture.mount.contents("d/x"), as: UTF8.self)
        return fileClass == ProtectionClass.complete.name ? "nothing changes" : "new files get the class of then"
      }),
    Attack(
      name: "the keybag is as it was before a change of the passcode",
      make: { try $0.putBack(Fixture.keyFiles.dropLast()) }, result: passcode),
    Attack(
      name: "the keybag and the effaceable secret are as they were before", make: { try $0.putBack(Fixture.keyFiles) },
      result: passcode),
    Attack(name: "the whole store is as it was before", isOfAll: true),
  ]

  /// Which passcode opens the store.
  private static func passcode(_ fixture: Fixture) throws -> String {
    do {
      if try fixture.store.opens(with: "another") { return "nothing changes" }
      return try fixture.store.opens(with: "passcode") ? "the passcode of then opens it" : "no passcode opens it"
    } catch KeyManagementError.effaceableSecretMissing {
      return "the store does not open"
    }
  }

  private static func zero(_ fixture: Fixture) throws {
    try fixture.backing("a")
      .allocate([.punchHole, .keepSize], offset: fixture.offset(ofPage: 2), length: 4096)
  }

  private static func resize(_ fixture: Fixture, to length: UInt64) throws {
    try fixture.backing("a").truncate(to: fixture.layout.backingLength(for: length))
  }

  /// What a program reads of a file, page by page.
  private static func state(of name: String, _ fixture: Fixture) throws -> String {
    let size: Int
    do throws(Errno) { size = try fixture.mount.size(of: name) } catch { return "\(describe(error)) for the file" }
    var found: [String] = size == current.count ? [] : ["another length"]
    var failures = 0
    for start in stride(from: 0, to: size, by: 4096) {
      let bytes: [UInt8]
      do throws(Errno) {
        bytes = try fixture.mount.read(name, at: UInt64(start), count: min(4096, size - start))
      } catch {
        guard error == .ioError else { throw error }
        failures += 1
        continue
      }
      func isAll(_ isExpected: (Int, UInt8) -> Bool) -> Bool {
        bytes.enumerated().allSatisfy { isExpected(start + $0.offset, $0.element) }
      }
      func has(_ contents: [UInt8], _ index: Int, _ byte: UInt8) -> Bool {
        index < contents.count && contents[index] == byte
      }
      let label: String? =
        if isAll({ has(current, $0, $1) }) { nil } else if isAll({ has(earlier, $0, $1) || has(current, $0, $1) }) {
          "earlier contents"
        } else if isAll({ has(other, $0, $1) }) {
          "contents of the other"
        } else if isAll({ $1 == 0 || has(current, $0, $1) }) {
          "zeros"
        } else {
          "garbage"
        }
      if let label, !found.contains(label) { found.append(label) }
    }
    let pages = (size + 4095) / 4096
    if failures > 0 {
      found.append(failures == pages ? "EIO for the file" : failures == 1 ? "EIO for the page" : "EIO")
    }
    return found.isEmpty ? "nothing changes" : found.joined(separator: ", ")
  }

  private static func describe(_ error: Errno) -> String { error == .ioError ? "EIO" : "\(error)" }

  private static func answer(to attack: Attack, authenticatesContents: Bool) throws -> String {
    let store = try SimulatedMount.Store.kept(authenticatesContents: authenticatesContents)
    let disk = SimulatedDisk(store.image)
    let fixture = try disk.run {
      try Fixture(on: disk, authenticatesContents: authenticatesContents, isClosed: attack.isClosed)
    }
    return try (attack.isOfAll ? SimulatedDisk(fixture.storeBefore) : disk).run {
      try attack.make(fixture)
      do { try fixture.remount() } catch KeyManagementError.effaceableSecretMissing { return "the store does not open" }
      return try attack.result(fixture)
    }
  }

  /// No answer of an authenticated store is garbage.
  @Test(.enabled(if: !TestedStores.areAuthenticated)) func theTableIsTrue() throws {
    let lines = try Self.attacks.map { attack in
      let answers = try [false, true].map { try Self.answer(to: attack, authenticatesContents: $0) }
      #expect(!answers[1].contains("garbage"))
      return "| \(attack.name) | \(answers[0]) | \(answers[1]) |"
    }
    let document = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
      .appendingPathComponent("../../Documentation/SECURITY.md")
    let written = try String(contentsOf: document, encoding: .utf8).split(separator: "\n").map(String.init)
      .filter { line in Self.attacks.contains { line.hasPrefix("| \($0.name) |") } }
    // Behind what is of stores are the columns of others.
    let isTrue = written.count == lines.count && zip(written, lines).allSatisfy { $0.hasPrefix($1) }
    #expect(isTrue, "\(lines.joined(separator: "\n"))")
  }
}
