import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// A file of one class that one operation is done on, with all that was opened of it before.
package struct Subject: Sendable {
  static let size = 10_000

  package let fileClass: ProtectionClass
  /// A directory of the class, in which the file is.
  let directory: CallPath
  package let path: CallPath
  /// A file of class D.
  let other: CallPath
  /// Whom the file may be given to.
  let newOwner: (user: UInt32, group: UInt32)
  /// What was opened while that was allowed.
  var otherFile: (any FileDescriptorCalls)?
  var file: (any FileDescriptorCalls)?
  var appending: (any FileDescriptorCalls)?
  var mapping: (any MappingCalls)?

  var contents: [UInt8] { Self.contents }

  package static let contents = (0..<size).map { UInt8(truncatingIfNeeded: $0 * 7 / 5) }

  func sibling(_ suffix: String) -> CallPath {
    CallPath(path.calls, PathName(bytes: path.path.bytes + Array(suffix.utf8)))
  }

  func opened() throws(Errno) -> any FileDescriptorCalls {
    guard let file else { throw .badFileDescriptor }
    return file
  }

  func openedOther() throws(Errno) -> any FileDescriptorCalls {
    guard let otherFile else { throw .badFileDescriptor }
    return otherFile
  }

  func mapped() throws(Errno) -> any MappingCalls {
    guard let mapping else { throw .badFileDescriptor }
    return mapping
  }

  /// A wrong result is no errno of the contract.
  func expect(_ condition: Bool) throws(Errno) {
    if !condition { throw .wrongResult }
  }
}

/// How each operation of the table is done. What it needs beside its file is made by `prepare`, while unlocked.
package struct ContractOperation: Sendable {
  package typealias Action = @Sendable (Subject) throws(Errno) -> Void

  package var prepare: Action = { _ throws(Errno) in }
  package let run: Action

  init(prepare: @escaping Action = { _ throws(Errno) in }, _ run: @escaping Action) {
    self.prepare = prepare
    self.run = run
  }

  static let note: PathName = "user.note"
  package static let classAttribute = PathName(ProtectionClass.attributeName)

  package static let all: [String: ContractOperation] =
    opening.merging(onDescriptors) { first, _ in first }.merging(onMappings) { first, _ in first }
    .merging(creating) { first, _ in first }.merging(onNames) { first, _ in first }
    .merging(onClasses) { first, _ in first }

  private static let opening: [String: ContractOperation] = [
    "open for reading": .init { s throws(Errno) in
      try s.expect(try s.path.open(O_RDONLY).read(at: 0, count: 64) == Array(s.contents[..<64]))
    },
    "open for writing": .init { s throws(Errno) in try s.path.open(O_WRONLY).write([1, 2, 3], at: 5) },
    "open for both": .init { s throws(Errno) in _ = try s.path.open(O_RDWR) },
    "open with O_TRUNC": .init { s throws(Errno) in
      _ = try s.path.open(O_WRONLY | O_TRUNC)
      try s.expect(try s.path.status().size == 0)
    },
    "truncate": .init { s throws(Errno) in try s.path.calls.truncate(s.path.path, to: 100) },
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
    "fstat": .init { s throws(Errno) in try s.expect(try s.opened().callStatus().size == UInt64(Subject.size)) },
  ]

  private static let onMappings: [String: ContractOperation] = [
    "new mapping, read": .init { s throws(Errno) in
      let mapping = try s.opened().map(count: Subject.size)
      try s.expect(try mapping.read(at: 5000, count: 10) == Array(s.contents[5000..<5010]))
    },
    "new mapping, write": .init { s throws(Errno) in
      try s.opened().map(count: Subject.size).write([1, 2], at: 9000)
    },
    "old mapping, read": .init { s throws(Errno) in
      try s.expect(try s.mapped().read(at: 0, count: 10) == Array(s.contents[..<10]))
    },
    "old mapping, write": .init { s throws(Errno) in try s.mapped().write([1, 2], at: 0) },
  ]

  private static let creating: [String: ContractOperation] = [
    "create": .init { s throws(Errno) in
      let path = s.sibling(".new")
      do throws(Errno) { _ = try path.open(O_RDWR | O_CREAT | O_EXCL) } catch {
        // No empty entry is left behind.
        try s.expect(failure { () throws(Errno) in _ = try path.status() } == .noSuchFileOrDirectory)
        throw error
      }
    },
    "create, write, read back": .init { s throws(Errno) in
      let file = try s.sibling(".new").open(O_RDWR | O_CREAT)
      try file.write(s.contents, at: 0)
      try file.synchronize()
      try s.expect(try file.read(at: 0, count: Subject.size) == s.contents)
    },
    "open what was created": .init { s throws(Errno) in
      let path = s.sibling(".new")
      do throws(Errno) {
        try path.open(O_WRONLY | O_CREAT).write([1, 2, 3], at: 0)
      } catch {
        try s.expect(false)
      }
      try s.expect(try path.contents() == [1, 2, 3])
    },
    "mknod": .init { s throws(Errno) in
      let path = s.sibling(".node")
      do throws(Errno) { try path.calls.makeNode(path.path, mode: S_IFREG | 0o600) } catch {
        try s.expect(failure { () throws(Errno) in _ = try path.status() } == .noSuchFileOrDirectory)
        throw error
      }
    },
  ]

  private static let onNames: [String: ContractOperation] = [
    "stat": .init { s throws(Errno) in try s.expect(try s.path.status().size == UInt64(Subject.size)) },
    "readdir": .init { s throws(Errno) in
      try s.expect(
        try s.directory.calls.names(in: s.directory.path).contains { s.path.path.bytes.ends(with: $0.bytes) })
    },
    "chmod": .init { s throws(Errno) in try s.path.calls.setMode(of: s.path.path, to: 0o600) },
    "chown": .init { s throws(Errno) in
      try s.path.calls.setOwner(of: s.path.path, user: s.newOwner.user, group: s.newOwner.group)
    },
    "utimens": .init { s throws(Errno) in try s.path.calls.setTimes(of: s.path.path, seconds: 1_000_000_000) },
    "rename": .init { s throws(Errno) in try s.path.rename(to: s.sibling(".renamed")) },
    "rename over another": .init(prepare: { s throws(Errno) in try s.sibling(".target").write([1]) }) {
      s throws(Errno) in
      try s.path.rename(to: s.sibling(".target"))
    },
    "link": .init { s throws(Errno) in
      try s.path.calls.link(s.path.path, as: s.sibling(".link").path)
      try s.expect(try s.path.status().links == 2)
    },
    "unlink": .init { s throws(Errno) in try s.path.calls.unlink(s.path.path) },
    "mkdir": .init { s throws(Errno) in try s.sibling(".directory").makeDirectory() },
    "rmdir": .init(prepare: { s throws(Errno) in try s.sibling(".directory").makeDirectory() }) { s throws(Errno) in
      try s.path.calls.removeDirectory(s.sibling(".directory").path)
    },
    "symlink": .init { s throws(Errno) in try s.path.calls.makeSymbolicLink(s.sibling(".symlink").path, to: "a/target")
    },
    "readlink": .init(prepare: { s throws(Errno) in
      try s.path.calls.makeSymbolicLink(s.sibling(".symlink").path, to: "a/target")
    }) {
      s throws(Errno) in
      try s.expect(try s.path.calls.target(of: s.sibling(".symlink").path) == Array("a/target".utf8))
    },
    "getxattr": .init(prepare: { s throws(Errno) in try s.path.setAttribute(note, to: [4, 5, 6]) }) {
      s throws(Errno) in
      try s.expect(try s.path.attribute(note) == [4, 5, 6])
    },
    "setxattr": .init { s throws(Errno) in try s.path.setAttribute(note, to: [1, 2, 3]) },
    "listxattr": .init(prepare: { s throws(Errno) in try s.path.setAttribute(note, to: [4]) }) {
      s throws(Errno) in
      try s.expect(try s.path.calls.attributeNames(of: s.path.path) == ["user.note"])
    },
  ]
}

extension RandomAccessCollection<UInt8> {
  func ends(with other: some RandomAccessCollection<UInt8>) -> Bool { suffix(other.count).elementsEqual(other) }
}

/// What a call failed with; `nil` where it succeeded.
func failure(of call: () throws(Errno) -> Void) -> Errno? {
  do throws(Errno) {
    try call()
    return nil
  } catch {
    return error
  }
}
