import CSystemCalls
import Glibc
import ProtectfsIO
import SystemPackage
import Testing

extension MountTests {
  /// What takes more than one process, another file system or many names: done on the mount and beside its backing
  /// directory, with one result.
  @Suite struct ConformanceScenarioTests {
    /// Runs `body` in a directory of the backing file system and in one of the mount, and compares what it tells.
    private func compare(
      _ options: [String] = ["-o", "allow_other"], _ body: (PathName) throws -> [String]
    ) throws {
      try Volume.with(options) { volume in
        try volume.directory.appending("plain").makeDirectory()
        try volume.path("mounted").makeDirectory()
        let expected = try body(volume.directory.appending("plain"))
        #expect(!expected.isEmpty)
        #expect(try body(volume.path("mounted")) == expected)
      }
    }

    private func error(_ call: () throws(Errno) -> Void) -> String { failure(of: call)?.debugDescription ?? "done" }

    /// telldir, seekdir and rewinddir, and names that come and go while they are read.
    @Test func readingLargeDirectories() throws {
      try compare { directory in
        let count = 6000
        for number in 0..<count { try directory.appending("entry \(number)").makeNode(mode: S_IFREG | 0o600) }
        var seen = calls_directory_walk()
        let result = try check(
          unsafe directory.withCString { unsafe calls_walk_directory($0, &seen) })
        #expect(seen.entries == UInt64(count + 2) && seen.found_again == seen.sought && seen.sought > 50)
        #expect(seen.seen_twice == 0 && seen.missing == 0, "names that stayed are seen once while others go and come")
        return ["\(result) \(seen.entries) \(seen.left) \(seen.missing) \(seen.seen_twice) \(seen.disagreements)"]
      }
    }

    /// 65,000 names are what ext4 allows a file; all but the last are made beside the store.
    @Test func asManyNamesAsAllowed() throws {
      try Volume.with { volume in
        let file = volume.path("file")
        try file.write("x")
        try volume.unmount()
        let stored = try #require(try volume.backing.names().first { $0 != ".protectfs" })
        let beside = volume.directory.appending("names")
        try beside.makeDirectory()
        let backingFile = volume.backing.appending(bytes: Array(stored.bytes))
        for number in 1..<64_990 { try backingFile.link(as: beside.appending("\(number)")) }
        try volume.mount()
        try volume.unlock()
        for number in 64_990..<65_000 { try file.link(as: volume.path("\(number)")) }
        #expect(try file.status().links == 65_000)
        #expect(throws: Errno.tooManyLinks) { try file.link(as: volume.path("new")) }
        // Its sidecar goes with a long name that does not come to be.
        let long = volume.mountPoint.appending(bytes: [UInt8](repeating: 0x6C, count: 250))
        #expect(throws: Errno.tooManyLinks) { try file.link(as: long) }
        #expect(try volume.backing.names().count == 12)
        try volume.path("64990").unlink()
        try file.link(as: volume.path("new"))
        #expect(try file.contents() == Array("x".utf8))
      }
    }

    /// A program that runs cannot be written; one that is written cannot be run.
    @Test func busyPrograms() throws {
      try compare { directory in
        let program = directory.appending("program")
        try program.write(PathName("/bin/sleep").contents(), mode: 0o755)
        let running = try Program([program.description, "30"], output: directory.appending("output"))
        defer {
          running.send(SIGKILL)
          _ = running.wait()
        }
        while try PathName("/proc/\(running.identifier)/exe").symbolicLinkTarget() != Array(program.bytes) {
          usleep(1000)
        }
        var lines = [
          error { () throws(Errno) in _ = try OpenFile(program, O_WRONLY) },
          error { () throws(Errno) in _ = try OpenFile(program, O_RDWR | O_TRUNC) },
          error { () throws(Errno) in try program.truncate(to: 0) },
          error { () throws(Errno) in try program.rename(to: directory.appending("renamed")) },
          error { () throws(Errno) in try directory.appending("renamed").unlink() },
        ]
        #expect(lines.first == Errno.textFileBusy.debugDescription)
        try program.write(PathName("/bin/sleep").contents(), mode: 0o755)
        let writer = try OpenFile(program, O_RDWR)
        lines.append(error { () throws(Errno) in _ = try Program.run([program.description, "0"]) })
        withExtendedLifetime(writer) {}
        return lines
      }
    }

    /// Another file system: a name cannot be moved or linked there.
    @Test func otherFileSystems() throws {
      let other = PathName("/dev/shm/protectfs-tests.\(getpid())")
      try other.makeDirectory()
      defer { TemporaryDirectory.remove(other) }
      try other.appending("there").write("x")
      try compare { directory in
        try directory.appending("file").write("x")
        try directory.appending("d").makeDirectory()
        return [
          error { () throws(Errno) in try directory.appending("file").rename(to: other.appending("new")) },
          error { () throws(Errno) in try directory.appending("file").link(as: other.appending("new")) },
          error { () throws(Errno) in try directory.appending("d").rename(to: other.appending("new")) },
          error { () throws(Errno) in try other.appending("there").rename(to: directory.appending("file")) },
          error { () throws(Errno) in try other.appending("there").link(as: directory.appending("new")) },
          "\(try directory.names())",
        ]
      }
    }

    /// A directory that something is mounted on stays where it is.
    @Test func mountPoints() throws {
      try compare { directory in
        let point = directory.appending("point")
        try point.makeDirectory()
        try directory.appending("d").makeDirectory()
        try #require(try Program.run(["mount", "-t", "tmpfs", "none", point.description]).succeeded)
        defer { try? point.unmount(isLazy: true) }
        return [
          error { () throws(Errno) in try point.removeDirectory() },
          error { () throws(Errno) in try point.rename(to: directory.appending("new")) },
          error { () throws(Errno) in try directory.appending("d").rename(to: point) },
          error { () throws(Errno) in try point.appending("..").appending("d").removeDirectory() },
        ]
      }
    }

    /// Locks of several processes, RLIMIT_FSIZE, and working directories that are moved: a process does it, and tells.
    @Test func otherProcesses() throws {
      try compare { directory in
        try directory.appending("file").write(pattern(1, count: 10_000))
        try directory.appending("a").makeDirectory()
        try directory.appending("a/b").makeDirectory()
        var text = [CChar](repeating: 0, count: 8192)
        try check(
          unsafe text.withUnsafeMutableBufferPointer { text in
            unsafe directory.withCString { unsafe calls_in_processes($0, text.baseAddress!, text.count) }
          })
        let lines = String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        #expect(lines.contains("RLIMIT_FSIZE"))
        return lines.split(separator: "\n").map(String.init)
      }
    }

    /// A tree deeper than PATH_MAX, gone down and up by relative steps.
    @Test func deepTrees() throws {
      try compare { directory in
        let depth = try check(unsafe directory.withCString { unsafe calls_deep_tree($0, 60, 200) })
        return ["\(depth)"]
      }
    }

    /// A mount that is read-only answers EROFS to whatever would change something.
    @Test func readOnly() throws {
      try Volume.store { volume in
        try volume.mount()
        try volume.unlock()
        try volume.path("file").write("x")
        try volume.path("directory").makeDirectory()
        try volume.path("link").makeSymbolicLink(to: "file")
        try volume.remount(["-o", "allow_other,ro"])
        try volume.unlock()
        let (file, new) = (volume.path("file"), volume.path("new"))
        let changes: [(String, () throws(Errno) -> Void)] = [
          ("open", { () throws(Errno) in _ = try OpenFile(file, O_RDWR) }),
          ("create", { () throws(Errno) in _ = try OpenFile(new, O_RDWR | O_CREAT) }),
          ("open, truncating", { () throws(Errno) in _ = try OpenFile(file, O_RDONLY | O_TRUNC) }),
          ("truncate", { () throws(Errno) in try file.truncate(to: 0) }),
          ("chmod", { () throws(Errno) in try file.setMode(0o600) }),
          ("chown", { () throws(Errno) in try file.setOwner(user: 1, group: 1) }),
          ("utimens", { () throws(Errno) in try file.setTimes(seconds: 1) }),
          ("unlink", { () throws(Errno) in try file.unlink() }),
          ("rmdir", { () throws(Errno) in try volume.path("directory").removeDirectory() }),
          ("mkdir", { () throws(Errno) in try new.makeDirectory() }),
          ("mknod", { () throws(Errno) in try new.makeNode(mode: S_IFIFO | 0o600) }),
          ("symlink", { () throws(Errno) in try new.makeSymbolicLink(to: "file") }),
          ("link", { () throws(Errno) in try file.link(as: new) }),
          ("rename", { () throws(Errno) in try file.rename(to: new) }),
          ("setxattr", { () throws(Errno) in try file.setExtendedAttribute("user.a", to: [1]) }),
          ("removexattr", { () throws(Errno) in try file.removeExtendedAttribute("user.a") }),
        ]
        for (name, change) in changes {
          #expect(failure(of: change) == .readOnlyFileSystem, "\(name)")
        }
        #expect(try file.contents() == Array("x".utf8))
        #expect(try volume.mountPoint.names() == ["directory", "file", "link"])
      }
    }
  }
}
