import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import TestVectors
import Testing

extension MountTests {
  /// Names, links, renames, removals, and the owners of new files.
  @Suite struct NamespaceTests {
    /// Every length, and every byte that a name can have.
    @Test func namesOfAnyBytes() throws {
      try Volume.with { volume in
        var random = RepeatableGenerator(seed: 11)
        var names = (1...255).map { length in
          (0..<length).map { _ in UInt8.random(in: 1...255, using: &random) }.map { $0 == UInt8(ascii: "/") ? 1 : $0 }
        }
        names += (1...255).filter { $0 != 0x2F && $0 != 0x2E }.map { [UInt8($0)] }
        names += [
          [0x2E, 0x2E, 0x2E], Array(".protectfs".utf8), Array("~".utf8), [0xFF, 0xFE], Array("a b\nc\\".utf8),
        ]
        names = Array(Set(names))
        for (index, name) in names.enumerated() {
          let path = volume.mountPoint.appending(bytes: name)
          switch index % 4 {
          case 0: try path.makeDirectory()
          case 1: try path.makeSymbolicLink(to: "x")
          default: try path.write(name)
          }
        }
        let expected = names.map { PathName(bytes: $0) }.sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
        #expect(try volume.mountPoint.names() == expected)
        try volume.remount()
        try volume.unlock()
        #expect(try volume.mountPoint.names() == expected)
        for (index, name) in names.enumerated() {
          let path = volume.mountPoint.appending(bytes: name)
          let renamed = volume.mountPoint.appending(bytes: Array(name.dropLast()) + [name.last == 0x80 ? 0x81 : 0x80])
          if index % 4 >= 2 { #expect(try path.contents() == name) }
          if renamed.exists { continue }
          try path.rename(to: renamed)
          #expect(!path.exists && renamed.exists)
          try renamed.rename(to: path)
        }
        for (index, name) in names.enumerated() {
          let path = volume.mountPoint.appending(bytes: name)
          if index % 4 == 0 { try path.removeDirectory() } else { try path.unlink() }
        }
        // No sidecar of a long name is left.
        #expect(try volume.backing.names() == [".protectfs"])
        let tooLong = volume.mountPoint.appending(bytes: [UInt8](repeating: 0x61, count: 256))
        #expect(throws: Errno.fileNameTooLong) { try tooLong.write("x") }
        #expect(throws: Errno.fileNameTooLong) { try tooLong.status() }
      }
    }

    @Test func hardLinks() throws {
      try Volume.with { volume in
        let (first, second, third) = (volume.path("first"), volume.path("d/second"), volume.path("third"))
        try volume.path("d").makeDirectory()
        try first.write("one")
        try first.link(as: second)
        try second.link(as: third)
        #expect(throws: Errno.fileExists) { try first.link(as: third) }
        #expect(try third.status().links == 3)
        try first.unlink()
        #expect(try second.contents() == Array("one".utf8))
        try third.write("two, longer")
        #expect(try second.contents() == Array("two, longer".utf8))
        try volume.path("d").rename(to: volume.path("e"))
        let moved = volume.path("e/second")
        try third.unlink()
        try dropCaches()
        #expect(try moved.contents() == Array("two, longer".utf8))
        #expect(try moved.status().links == 1)
        try moved.setProtectionClass(.complete)
        try moved.link(as: third)
        #expect(try third.protectionClass() == .complete)
        try moved.rename(to: third)
        #expect(moved.exists, "renaming one link over another does nothing")
        // A name is removed while the file is open, and the node knew only that name.
        let open = try OpenFile(third, O_RDWR)
        try third.unlink()
        try open.write([1], at: 100)
        #expect(try moved.status().size == 101)
        let names = (0..<100).map { volume.path("link \($0)") }
        for name in names { try moved.link(as: name) }
        for name in names.reversed() {
          try name.setMode(0o600)
          try name.unlink()
        }
        #expect(try moved.contents().count == 101)
      }
    }

    /// The names go that the daemon knows; the kernel still has others.
    @Test func moreNamesThanAreKnown() throws {
      try Volume.with { volume in
        let names = (0..<100).map { volume.path("name \($0)") }
        try names[0].write("one")
        for name in names.dropFirst() { try names[0].link(as: name) }
        let held = try Descriptor.open(names[0], [.path])
        for name in names.dropFirst(20).reversed() { try name.unlink() }
        #expect(try held.status().links == 20)
        // It reports what close(2) does.
        let append = "printf ' two' | dd of=\"$1\" oflag=append conv=notrunc status=none"
        let result = try Program.run(["sh", "-c", append, "sh", names[1].description])
        #expect(result.succeeded, "\(result.output)")
        try Descriptor.open(volume.mountPoint, [.readOnly]).writeFileSystemBack()
        #expect(try names[2].contents() == Array("one two".utf8))
      }
    }

    @Test func unlinkedButOpen() throws {
      try Volume.with { volume in
        for fileClass in [ProtectionClass.complete, .completeUnlessOpen, .none] {
          let path = volume.path("file")
          try path.write(pattern(1, count: 50_000))
          try path.setProtectionClass(fileClass)
          let file = try OpenFile(path, O_RDWR)
          try path.unlink()
          #expect(!path.exists)
          try dropCaches()
          #expect(try file.read(at: 40_000, count: 100) == Array(pattern(1, count: 50_000)[40_000..<40_100]))
          try file.write([1, 2, 3], at: 60_000)
          try file.truncate(to: 70_000)
          try file.synchronize()
          let status = try file.status()
          #expect(status.size == 70_000 && status.links == 0)
          // Another file with the same name is another file.
          try path.write("new")
          #expect(try file.status().size == 70_000)
          let reopened = try OpenFile(PathName("/proc/self/fd/\(file.descriptor)"), O_RDWR)
          #expect(try reopened.read(at: 60_000, count: 3) == [1, 2, 3])
          try path.unlink()
        }
        #expect(try volume.backing.names() == [".protectfs"])
      }
    }

    /// An open file without a name takes one descriptor of the daemon's; one that is known and not open keeps it.
    @Test func aDescriptorEach() throws {
      try Volume.with { volume in
        func descriptors() throws -> Int { try PathName("/proc/\(volume.processID)/fd").names().count }
        let path = volume.path("file")
        let before = try descriptors()
        var files: [OpenFile] = []
        for number in 0..<100 {
          let file = try OpenFile(path, O_RDWR | O_CREAT)
          try file.write([UInt8(number)], at: 0)
          files.append(file)
          try path.unlink()
        }
        // A few are open for a moment.
        #expect(try eventually { try descriptors() <= before + 110 })
        let known = try Descriptor.open(PathName("/proc/self/fd/\(files[7].descriptor)"), [.path])
        files = []
        #expect(try PathName("/proc/self/fd/\(known.rawValue)").contents() == [7])
        #expect(try eventually { try descriptors() <= before + 10 })
      }
    }

    @Test func renames() throws {
      try Volume.with { volume in
        let (a, b, directory) = (volume.path("a"), volume.path("b"), volume.path("directory"))
        try a.write("a")
        try b.write("b")
        #expect(throws: Errno.fileExists) { try a.rename(to: b, flags: .noReplace) }
        #expect(try b.contents() == Array("b".utf8))
        try a.rename(to: volume.path("c"), flags: .noReplace)
        try volume.path("c").rename(to: a, flags: .noReplace)
        try a.rename(to: b, flags: .exchange)
        #expect(try a.contents() == Array("b".utf8) && b.contents() == Array("a".utf8))
        try directory.makeDirectory()
        try directory.appending("sub").makeDirectory()
        try a.rename(to: directory, flags: .exchange)
        #expect(try a.appending("sub").status().mode & 0o170000 == 0o040000)
        #expect(try directory.contents() == Array("b".utf8))
        #expect(throws: Errno.noSuchFileOrDirectory) { try volume.path("nothing").rename(to: b, flags: .exchange) }
        #expect(throws: Errno.invalidArgument) { try a.rename(to: a.appending("sub/inside")) }
        #expect(throws: Errno.directoryNotEmpty) {
          try volume.path("empty").makeDirectory()
          try volume.path("empty").rename(to: a)
        }
      }
    }

    @Test func renamesOfWhatIsOpen() throws {
      try Volume.with { volume in
        let (a, b, directory) = (volume.path("a"), volume.path("b"), volume.path("directory"))
        try b.write("b")
        try directory.makeDirectory()
        try a.write("a")
        // Over an open file, which remains.
        let open = try OpenFile(b, O_RDWR)
        try a.rename(to: b)
        try open.write(Array("still".utf8), at: 0)
        #expect(try open.read(at: 0, count: 10) == Array("still".utf8))
        #expect(try b.contents() == Array("a".utf8))
        // A tree is moved while a file in it is open.
        try directory.appending("sub").makeDirectory()
        try directory.appending("sub/file").write("deep")
        let deep = try OpenFile(directory.appending("sub/file"), O_RDWR)
        try directory.appending("sub").rename(to: volume.path("moved"))
        try dropCaches()
        try deep.write(Array("DEEP".utf8), at: 0)
        #expect(try volume.path("moved/file").contents() == Array("DEEP".utf8))
      }
    }

    @Test func renamesOfLongNames() throws {
      try Volume.with { volume in
        // Long names, with sidecars, in every way.
        let long = (0..<3).map { volume.path(String(repeating: "\($0)", count: 250)) }
        for name in long.prefix(2) { try name.write(String(name.description.last!)) }
        try long[0].rename(to: long[1], flags: .exchange)
        try long[0].rename(to: long[2])
        try long[1].rename(to: long[2])
        try volume.remount()
        try volume.unlock()
        #expect(try long[2].contents() == Array("0".utf8))
        #expect(!long[0].exists && !long[1].exists)
        #expect(try volume.status().undecodableNames == 0)
      }
    }

    /// Leftovers of long names after a crash are not visible, so they do not prevent the removal of a directory.
    @Test func leftoversDoNotCount() throws {
      try Volume.with { volume in
        let (new, old) = (volume.path("new"), volume.path("old"))
        try old.makeDirectory()
        let backing = try #require(try volume.backing.names().first { $0 != ".protectfs" })
        let leftover = "~" + String(repeating: "A", count: 43) + ".name"
        func plant() throws { try volume.backing.appending("\(backing)/\(leftover)").write("leftover") }
        try plant()
        try new.makeDirectory()
        try new.rename(to: old)
        let moved = try #require(try volume.backing.names().first { $0 != ".protectfs" })
        #expect(moved == backing)
        try plant()
        try old.removeDirectory()
        #expect(try volume.mountPoint.names().isEmpty)
      }
    }

    /// A file whose creation was interrupted has no record yet. If it replaces a file of explicit class, it takes over
    /// that class.
    @Test func aFileWithoutRecordTakesAClassOver() throws {
      try Volume.with { volume in
        let (new, old) = (volume.path("new"), volume.path("old"))
        try new.write("")
        let backing = try #require(try volume.backing.names().first { $0 != ".protectfs" })
        try volume.backing.appending("\(backing)").removeExtendedAttribute("user.cprotect")
        try volume.remount()
        try volume.unlock()
        try old.write("old")
        try old.setProtectionClass(.completeUnlessOpen)
        try new.rename(to: old)
        #expect(try old.protectionClass() == .completeUnlessOpen)
        #expect(try old.extendedAttributeNames() == [ProtectionClass.attributeName])
        #expect(try old.contents().isEmpty)
      }
    }

    /// The long symlink file of a link is created and removed with the link, whatever its names.
    @Test func longTargets() throws {
      try Volume.with { volume in
        let targets = volume.backing.appending(".protectfs/targets")
        let target = [UInt8](repeating: 0x61, count: 4095)
        let (link, other, moved) = (volume.path("link"), volume.path("other"), volume.path("directory/moved"))
        try volume.path("directory").makeDirectory()
        try link.makeSymbolicLink(to: PathName(bytes: target))
        try link.link(as: other)
        try link.rename(to: moved)
        try other.unlink()
        #expect(try targets.names().count == 1, "one name is left")
        #expect(throws: Errno.fileExists) { try moved.makeSymbolicLink(to: PathName(bytes: target)) }
        #expect(try targets.names().count == 1, "what was not made leaves nothing")
        try volume.remount()
        #expect(try moved.symbolicLinkTarget() == target)
        #expect(try moved.status().size == 4095)
        #expect(throws: Errno.fileNameTooLong) { try link.makeSymbolicLink(to: PathName(bytes: target + [0x61])) }
        try volume.unlock()
        try link.write("replaces")
        try link.rename(to: moved)
        #expect(try targets.names().isEmpty)
      }
    }

    @Test func symbolicLinks() throws {
      try Volume.with { volume in
        for length in [1, 2, 15, 16, 17, 255, 1000, 3055, 3056, 4095] {
          let link = volume.path("link \(length)")
          let target = (0..<length).map { UInt8(0x21 + $0 % 90) }
          try link.makeSymbolicLink(to: PathName(bytes: target))
          #expect(try link.symbolicLinkTarget() == target)
          #expect(try link.status().size == UInt64(length))
        }
        try volume.path("file").write("through")
        try volume.path("to file").makeSymbolicLink(to: "file")
        #expect(try volume.path("to file").contents() == Array("through".utf8))
        try volume.path("broken").makeSymbolicLink(to: "nowhere")
        #expect(throws: Errno.noSuchFileOrDirectory) { try volume.path("broken").contents() }
        try volume.remount()
        #expect(try volume.path("to file").symbolicLinkTarget() == Array("file".utf8))
      }
    }
  }
}
