import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// A file of one class that one operation is done on, with all that was opened of it before.
struct Subject {
  static let size = 10_000

  let fileClass: ProtectionClass
  /// A directory of the class, in which the file is.
  let directory: PathName
  let path: PathName
  /// A file of class D.
  let other: PathName
  /// What was opened while that was allowed.
  var otherFile: OpenFile?
  var file: OpenFile?
  var appending: OpenFile?
  var mapping: Mapping?

  var contents: [UInt8] { Self.contents }

  static let contents = (0..<size).map { UInt8(truncatingIfNeeded: $0 * 7 / 5) }

  func sibling(_ suffix: String) -> PathName { PathName(bytes: Array(path.bytes) + Array(suffix.utf8)) }

  func opened() throws(Errno) -> OpenFile {
    guard let file else { throw .badFileDescriptor }
    return file
  }

  func openedOther() throws(Errno) -> OpenFile {
    guard let otherFile else { throw .badFileDescriptor }
    return otherFile
  }

  func mapped() throws(Errno) -> Mapping {
    guard let mapping else { throw .badFileDescriptor }
    return mapping
  }

  func expect(_ condition: Bool) throws(Errno) {
    // A wrong result is no errno of the contract, so it is told apart by one that nothing returns.
    if !condition { throw .protocolError }
  }
}

/// How each operation of the table is done. What it needs beside its file is made by `prepare`, while unlocked.
struct ContractOperation {
  typealias Action = @Sendable (Subject) throws(Errno) -> Void

  var prepare: Action = { _ throws(Errno) in }
  let run: Action

  init(prepare: @escaping Action = { _ throws(Errno) in }, _ run: @escaping Action) {
    self.prepare = prepare
    self.run = run
  }

  static let note: PathName = "user.note"
  static let classAttribute = PathName(ProtectionClass.attributeName)

  static let all: [String: ContractOperation] =
    opening.merging(onDescriptors) { first, _ in first }.merging(onMappings) { first, _ in first }
    .merging(creating) { first, _ in first }.merging(onNames) { first, _ in first }
    .merging(onClasses) { first, _ in first }

  private static let opening: [String: ContractOperation] = [
    "open for reading": .init { s throws(Errno) in
      try s.expect(try OpenFile(s.path, O_RDONLY).read(at: 0, count: 64) == Array(s.contents[..<64]))
    },
    "open for writing": .init { s throws(Errno) in try OpenFile(s.path, O_WRONLY).write([1, 2, 3], at: 5) },
    "open for both": .init { s throws(Errno) in _ = try OpenFile(s.path, O_RDWR) },
    "open with O_TRUNC": .init { s throws(Errno) in
      _ = try OpenFile(s.path, O_WRONLY | O_TRUNC)
      try s.expect(try s.path.status().size == 0)
    },
    "truncate": .init { s throws(Errno) in try s.path.truncate(to: 100) },
  ]

  private static let onDescriptors: [String: ContractOperation] = [
    "read": .init { s throws(Errno) in
      try s.expect(try s.opened().read(at: 4000, count: 200) == Array(s.contents[4000..<4200]))
    },
    "write": .init { s throws(Errno) in
      try s.opened().write([9, 8, 7], at: 100)
      try s.expect(try s.opened().read(at: 100, count: 3) == [9, 8, 7])
    },
    "write past the end": .init { s throws(Errno) in try s.opened().write([1], at: 50_000) },
    "append": .init { s throws(Errno) in
      guard let file = s.appending else { throw .badFileDescriptor }
      try file.append([1, 2, 3, 4])
      try s.expect(try s.path.status().size == UInt64(Subject.size + 4))
    },
    "ftruncate, shrink": .init { s throws(Errno) in try s.opened().truncate(to: 77) },
    "ftruncate, grow": .init { s throws(Errno) in try s.opened().truncate(to: 33_333) },
    "fallocate": .init { s throws(Errno) in try s.opened().allocate([], at: 0, count: 20_000) },
    "fallocate, punch": .init { s throws(Errno) in
      try s.opened().allocate([.punchHole, .keepSize], at: 100, count: 5000)
    },
    "copy_file_range from it": .init { s throws(Errno) in
      try s.expect(try s.opened().copyRange(from: 0, to: s.openedOther(), at: 0, count: 5000) == 5000)
    },
    "copy_file_range into it": .init { s throws(Errno) in
      try s.expect(try s.openedOther().copyRange(from: 0, to: s.opened(), at: 0, count: 5000) == 5000)
    },
    "fsync": .init { s throws(Errno) in try s.opened().synchronize() },
    "fdatasync": .init { s throws(Errno) in try s.opened().synchronizeData() },
    "fstat": .init { s throws(Errno) in try s.expect(try s.opened().status().size == UInt64(Subject.size)) },
  ]

  private static let onMappings: [String: ContractOperation] = [
    "new mapping, read": .init { s throws(Errno) in
      let mapping = try Mapping(s.opened(), count: Subject.size)
      try s.expect(try mapping.read(at: 5000, count: 10) == Array(s.contents[5000..<5010]))
    },
    "new mapping, write": .init { s throws(Errno) in
      try Mapping(s.opened(), count: Subject.size).write([1, 2], at: 9000)
    },
    "old mapping, read": .init { s throws(Errno) in
      try s.expect(try s.mapped().read(at: 0, count: 10) == Array(s.contents[..<10]))
    },
    "old mapping, write": .init { s throws(Errno) in try s.mapped().write([1, 2], at: 0) },
  ]

  private static let creating: [String: ContractOperation] = [
    "create": .init { s throws(Errno) in
      let path = s.sibling(".new")
      do throws(Errno) { _ = try OpenFile(path, O_RDWR | O_CREAT | O_EXCL) } catch {
        // No empty entry is left behind.
        try s.expect(failure { () throws(Errno) in _ = try path.status() } == .noSuchFileOrDirectory)
        throw error
      }
    },
    "create, write, read back": .init { s throws(Errno) in
      let file = try OpenFile(s.sibling(".new"), O_RDWR | O_CREAT)
      try file.write(s.contents, at: 0)
      try file.synchronize()
      try s.expect(try file.read(at: 0, count: Subject.size) == s.contents)
    },
    "open what was created": .init { s throws(Errno) in
      let path = s.sibling(".new")
      do throws(Errno) {
        try OpenFile(path, O_WRONLY | O_CREAT).write([1, 2, 3], at: 0)
      } catch {
        try s.expect(false)
      }
      try s.expect(try path.contents() == [1, 2, 3])
    },
    "mknod": .init { s throws(Errno) in
      let path = s.sibling(".node")
      do throws(Errno) { try path.makeNode(mode: S_IFREG | 0o600) } catch {
        try s.expect(failure { () throws(Errno) in _ = try path.status() } == .noSuchFileOrDirectory)
        throw error
      }
    },
  ]

  private static let onNames: [String: ContractOperation] = [
    "stat": .init { s throws(Errno) in try s.expect(try s.path.status().size == UInt64(Subject.size)) },
    "readdir": .init { s throws(Errno) in
      try s.expect(try s.directory.names().contains { s.path.bytes.ends(with: $0.bytes) })
    },
    "chmod": .init { s throws(Errno) in try s.path.setMode(0o600) },
    "chown": .init { s throws(Errno) in try s.path.setOwner(user: 1234, group: 5678) },
    "utimens": .init { s throws(Errno) in try s.path.setTimes(seconds: 1_000_000_000) },
    "rename": .init { s throws(Errno) in try s.path.rename(to: s.sibling(".renamed")) },
    "rename over another": .init(prepare: { s throws(Errno) in try s.sibling(".target").write([1]) }) {
      s throws(Errno) in
      try s.path.rename(to: s.sibling(".target"))
    },
    "link": .init { s throws(Errno) in
      try s.path.link(as: s.sibling(".link"))
      try s.expect(try s.path.status().links == 2)
    },
    "unlink": .init { s throws(Errno) in try s.path.unlink() },
    "mkdir": .init { s throws(Errno) in try s.sibling(".directory").makeDirectory() },
    "rmdir": .init(prepare: { s throws(Errno) in try s.sibling(".directory").makeDirectory() }) { s throws(Errno) in
      try s.sibling(".directory").removeDirectory()
    },
    "symlink": .init { s throws(Errno) in try s.sibling(".symlink").makeSymbolicLink(to: "a/target") },
    "readlink": .init(prepare: { s throws(Errno) in try s.sibling(".symlink").makeSymbolicLink(to: "a/target") }) {
      s throws(Errno) in
      try s.expect(try s.sibling(".symlink").symbolicLinkTarget() == Array("a/target".utf8))
    },
    "getxattr": .init(prepare: { s throws(Errno) in try s.path.setExtendedAttribute(note, to: [4, 5, 6]) }) {
      s throws(Errno) in
      try s.expect(try s.path.extendedAttribute(note) == [4, 5, 6])
    },
    "setxattr": .init { s throws(Errno) in try s.path.setExtendedAttribute(note, to: [1, 2, 3]) },
    "listxattr": .init(prepare: { s throws(Errno) in try s.path.setExtendedAttribute(note, to: [4]) }) {
      s throws(Errno) in
      try s.expect(try s.path.extendedAttributeNames() == ["user.note"])
    },
  ]
}
