import CSystemCalls
import Glibc
import ProtectfsIO
import SystemPackage
import Testing

extension MountTests {
  /// A program with a set-user-ID bit that others may write: when the write returns, running it gives no privileges.
  @Suite(
    .enabled(
      if: getuid() == 0 && Program.isInstalled("setpriv") && Program.isInstalled("setfacl"),
      "not root, or setpriv or setfacl is missing"))
  struct SetIDBitTests {
    private struct Change: Sendable {
      let name: String
      /// The change leaves the program runnable.
      let make: @Sendable (_ program: PathName, _ contents: [UInt8]) throws -> Void
    }

    private static func stranger(
      _ program: PathName, _ flags: CInt = O_WRONLY, _ body: (OpenFile) throws(Errno) -> Void
    ) throws(Errno) {
      try Identity.stranger.perform { () throws(Errno) in try body(OpenFile(program, flags)) }
    }

    private static let changes = [
      Change(name: "write(2)") { program, contents in
        try stranger(program) { (file) throws(Errno) in try file.write([0], at: contents.count) }
      },
      Change(name: "write(2) with O_DIRECT") { program, contents in
        try stranger(program, O_WRONLY | OpenFile.direct) { (file) throws(Errno) in
          try file.writeDirectly(Array(contents[..<4096]), at: 0)
        }
      },
      Change(name: "O_TRUNC") { program, contents in
        try stranger(program, O_WRONLY | O_TRUNC) { (_) throws(Errno) in }
        // Root's own writes remove no bits.
        try OpenFile(program, O_WRONLY).write(contents, at: 0)
      },
      Change(name: "truncate(2)") { program, contents in
        try Identity.stranger.perform { () throws(Errno) in try program.truncate(to: contents.count + 1) }
      },
      Change(name: "fallocate(2)") { program, contents in
        try stranger(program) { (file) throws(Errno) in try file.allocate([], at: contents.count, count: 100) }
      },
      Change(name: "copy_file_range(2)") { program, contents in
        try stranger(program, O_RDWR) { (file) throws(Errno) in
          try file.copyRange(from: 0, to: file, at: contents.count, count: 100)
        }
      },
      Change(name: "sendfile(2)") { program, contents in
        try stranger(program) { (file) throws(Errno) in
          let source = try OpenFile("/usr/bin/id", O_RDONLY)
          try check(calls_sendfile(file.descriptor, off_t(contents.count), source.descriptor, 100))
        }
      },
    ]

    @Test func theyGoAtOnce() throws {
      try Volume.with(["-o", "allow_other,suid"]) { volume in
        try volume.mountPoint.setMode(0o755)
        let program = volume.path("program")
        let contents = try PathName("/usr/bin/id").contents()
        try program.write(contents, mode: 0o755)
        func user() throws -> String {
          let result = try Program.run(Identity.stranger.launcher + [program.description, "-u"])
          try #require(result.succeeded, "\(result.ending): \(result.output)")
          return result.output.trimmingNewline
        }
        for change in Self.changes {
          try program.setMode(0o6777)
          #expect(try user() == "0", "the mount has set-user-ID programs")
          try change.make(program, contents)
          #expect(try user() == "\(Identity.stranger.user)", "\(change.name)")
          #expect(try program.status().mode & 0o7777 == 0o777, "\(change.name)")
          try program.truncate(to: contents.count)
        }
      }
    }

    /// An ACL set by an owner who is not in the file's group removes the set-group-ID bit, like chmod(2).
    @Test func anACLTakesAForeignGroupsBitAway() throws {
      try Volume.with { volume in
        try volume.mountPoint.setMode(0o755)
        let (file, directory, own) = (volume.path("file"), volume.path("directory"), volume.path("own"))
        try file.write("x")
        try own.write("x")
        try directory.makeDirectory()
        let beside = volume.directory.appending("beside")
        try beside.write("x")
        for path in [file, directory, beside] {
          try path.setOwner(user: Identity.owner.user, group: Identity.stranger.group)
          try path.setMode(0o2755)
        }
        try own.give(to: .owner, mode: 0o2755)
        for path in [file, directory, beside, own] {
          let set = try Program.run(Identity.owner.launcher + ["setfacl", "-m", "u:1:rwx", path.description])
          #expect(set.succeeded, "\(set.output)")
        }
        for path in [file, directory, beside] { #expect(try path.status().mode & 0o7000 == 0, "\(path)") }
        #expect(try own.status().mode & 0o7000 == 0o2000, "who is in the group keeps it")
        // New files in the directory no longer get its group.
        try directory.setMode(0o777)
        try Identity.member.perform { () throws(Errno) in try directory.appending("new").write("x") }
        #expect(try directory.appending("new").status().group == Identity.member.group)
        // The default ACL does not concern the directory itself.
        try directory.setMode(0o2777)
        let set = try Program.run(Identity.owner.launcher + ["setfacl", "-d", "-m", "u:1:rwx", directory.description])
        #expect(set.succeeded, "\(set.output)")
        #expect(try directory.status().mode & 0o7000 == 0o2000)
      }
    }
  }
}

extension String {
  fileprivate var trimmingNewline: String { hasSuffix("\n") ? String(dropLast()) : self }
}
