import Foundation
import ProtectfsIO
import SystemPackage
import Testing

@testable import TreeCopy

/// What a source withholds, and what a restore says about it.
@Suite struct RestoreRunTests {
  @Test func namesThatCannotBeDecryptedAreTold() throws {
    let below = FakeItem(["kept": FakeItem("kept", inode: 3)], undecodable: ["x/y"], inode: 2)
    let run = try run(FakeItem(["d": below], undecodable: ["lost+found", "foreign"]))
    #expect(Set(run.log.leftOut) == [".: foreign", ".: lost+found", "d: x/y"])
    #expect(run.log.failed.isEmpty)
    #expect(run.contents("d/kept") == "kept")
  }

  @Test func attributesThatCannotBeReadAreTold() throws {
    let file = FakeItem(
      "kept", inode: 2,
      attributes: [
        "user.good": .success([1]), "user.bad": .failure(.ioError), "user.gone": .failure(.noData),
        "system.posix_acl_access": .failure(.ioError), "security.selinux": .success([1]),
      ], damagedAttributes: ["user.protectfs.a.x"])
    let run = try run(FakeItem(["file": file]))
    #expect(
      Set(run.log.leftOut) == ["file: user.bad", "file: user.protectfs.a.x", "file: system.posix_acl_access"])
    #expect(run.contents("file") == "kept")
    #expect(try run.path("file").attributeNames().filter { $0.description.hasPrefix("user.") } == ["user.good"])
    // The next run finds the file, and says the same.
    let again = try run.again()
    #expect(Set(again.log.leftOut) == Set(run.log.leftOut) && again.log.foundCount == 1)
  }

  @Test func contentsBehindTheLengthAreTold() throws {
    let run = try run(FakeItem(["a": FakeItem("12345", size: 3, inode: 2), "b": FakeItem("x", size: 0, inode: 3)]))
    #expect(run.log.failed == ["a: longerThanSaid", "b: longerThanSaid"])
    #expect(run.contents("a") == nil && run.contents("b") == nil)
  }

  @Test func whatCannotBeReadIsTold() throws {
    let run = try run(
      FakeItem([
        "a": FakeItem("a", inode: 2, failure: .ioError), "d": FakeItem([:], inode: 3, failure: .ioError),
        "file": FakeItem("kept", inode: 4),
      ]))
    #expect(run.log.failed == ["a: source(\(Errno.ioError))", "d: source(\(Errno.ioError))"], "\(run.log.failed)")
    #expect(run.contents("file") == "kept")
  }

  /// The name that comes first has another file by the time that it is copied. The second name still has the old one.
  @Test func aSecondNameOfAReplacedFileKeepsItsContents() throws {
    let replaced = FakeItem("old", inode: 5, links: 2, successor: FakeItem("newer", inode: 9))
    let run = try run(
      FakeItem(["a": replaced, "b": FakeItem("old", inode: 5, links: 2), "c": FakeItem("old", inode: 5, links: 2)]))
    #expect(run.log.failed.isEmpty)
    #expect(run.contents("a") == "newer" && run.contents("b") == "old" && run.contents("c") == "old")
    #expect(try run.inode("b") == run.inode("c"))
  }

  /// The layers of an overlay have their own inode numbers, and files the device numbers of their layers.
  @Test func filesOfTwoLayersAreTwo() throws {
    func name(_ contents: String, _ device: UInt64) -> FakeItem {
      FakeItem(contents, inode: 5, device: device, links: 2)
    }
    let run = try run(
      FakeItem(["a": name("low", 1), "b": name("up", 2), "c": name("low", 1), "d": name("up", 2)]))
    #expect(run.log.failed.isEmpty)
    #expect(["a", "b", "c", "d"].map { run.contents($0) } == ["low", "up", "low", "up"])
    #expect(try run.inode("a") == run.inode("c") && run.inode("b") == run.inode("d"))
  }

  @Test func unfinishedCopiesAreTold() throws {
    let run = try run(FakeItem([".file.protectfs-new": FakeItem("part", inode: 2), "file": FakeItem("x", inode: 3)]))
    #expect(run.log.leftOut == [".file.protectfs-new: unfinished"])
    #expect(try FileManager.default.contentsOfDirectory(atPath: run.directory.path) == ["file"])
  }

  @Test func aTreeIsCountedWithoutSome() {
    let (a, b) = (FakeItem("12", inode: 3), FakeItem("345", inode: 4))
    let tree = FakeItem([
      "d": FakeItem(["a": a, "own": b], inode: 2), "b": b, "own": FakeItem(["a": a], inode: 5),
    ])
    let total = TreeTotal(of: tree, without: ["own"]) { true }
    #expect(total.entries == 4 && total.directories == 1 && total.files == 3 && total.bytes == 8)
    #expect(TreeTotal(of: tree) { true }.entries == 6)
    #expect(TreeTotal(of: tree) { false }.entries == 0)
  }

  /// A path through it is longer than any may be, and the thread has the stack of the command's.
  @Test func aDeepTreeIsCounted() throws {
    let directory = try TemporaryDirectory()
    var current = try Descriptor.open(PathName(directory.path), [.path, .directory])
    for level in 0..<3000 {
      if level % 1000 == 999 { try current.open("z", [.writeOnly, .create], mode: 0o600).write([1, 2, 3]) }
      try current.makeDirectory("dd", mode: 0o700)
      current = try current.open("dd", [.path, .directory])
    }
    let root = SharedDescriptor(try Descriptor.open(PathName(directory.path), [.path, .directory]))
    let total = RankedMutex<TreeTotal?>(.test, nil)
    Thread(name: "count") {
      let counted = TreeTotal(of: root) { true }
      total.withLock { $0 = counted }
    }.join()
    #expect(total.withLock { $0?.files } == 3 && total.withLock { $0?.bytes } == 9)
  }

  private func run(_ source: FakeItem) throws -> FinishedRun {
    try FinishedRun(source, TemporaryDirectory())
  }
}

/// A restore of a source in memory to a plain directory.
struct FinishedRun {
  let log = Log()
  let directory: TemporaryDirectory
  private let source: FakeItem

  init(_ source: FakeItem, _ directory: TemporaryDirectory) throws {
    (self.source, self.directory) = (source, directory)
    let target = SharedDescriptor(try Descriptor.open(PathName(directory.path), [.path, .directory]))
    let run = try RestoreRun(from: source, to: target, .init(overwrites: false, isDryRun: false), log) { false }
    run.restore(from: source)
  }

  func again() throws -> FinishedRun { try FinishedRun(source, directory) }

  func path(_ name: String) -> PathName { PathName("\(directory.path)/\(name)") }

  /// The contents of a file; `nil` where there is none.
  func contents(_ name: String) -> String? { try? String(contentsOfFile: "\(directory.path)/\(name)", encoding: .utf8) }

  func inode(_ name: String) throws -> UInt64 { try Descriptor.open(path(name), [.path]).status().inode }

  /// What the run has told, sorted.
  final class Log: RestoreObserver {
    private let told = RankedMutex<(failed: [String], leftOut: [String], found: Int)>(.test, ([], [], 0))
    var failed: [String] { told.withLock { $0.failed.sorted() } }
    var leftOut: [String] { told.withLock { $0.leftOut.sorted() } }
    var foundCount: Int { told.withLock { $0.found } }

    func copied(_ count: Int) {}
    func did(_ deed: RestoreRun.Deed, _ path: @autoclosure () -> String) {}
    func found() { told.withLock { $0.found += 1 } }
    func differs(_ path: String) {}

    func leftOut(_ omission: Omission, _ path: String) {
      let text =
        switch omission {
        case .name(let name), .attribute(let name, _): name.description
        case .owner: "owner"
        case .unfinishedCopy: "unfinished"
        case .protectionClass: "class"
        }
      told.withLock { $0.leftOut.append("\(path): \(text)") }
    }

    func failed(_ error: CopyError, _ path: String) -> Bool {
      told.withLock { $0.failed.append("\(path): \(error)") }
      return false
    }
  }
}

/// A directory for one test, removed with what is in it.
final class TemporaryDirectory: Sendable {
  let path = FileManager.default.temporaryDirectory.path + "/protectfs-test-\(UUID().uuidString)"

  init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false) }

  deinit {
    // Also a tree that is deeper than a path may be long.
    let removal = try? Foundation.Process.run(URL(filePath: "/bin/rm"), arguments: ["-rf", path])
    removal?.waitUntilExit()
  }
}
