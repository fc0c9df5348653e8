import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// Backing files that change behind a mount's back. A read returns the old content, the new one, or an error, and
  /// never another file's.
  @Suite struct BehindTheBackTests {
    /// A change of the backing directory.
    struct Change: Sendable {
      let name: String
      /// Gets the backing files of `one`, `two`, and the directory `d`.
      let make: @Sendable (_ one: PathName, _ two: PathName, _ d: PathName) throws -> Void

      init(_ name: String, _ make: @escaping @Sendable (PathName, PathName, PathName) throws -> Void) {
        self.name = name
        self.make = make
      }
    }

    private static let record: PathName = "user.cprotect"

    static let changes = [
      Change("nothing") { _, _, _ in },
      Change("delete") { one, _, _ in try one.unlink() },
      Change("truncate") { one, _, _ in try one.truncate(to: 32) },
      Change("empty") { one, _, _ in try one.truncate(to: 0) },
      Change("an impossible length") { one, _, _ in try one.truncate(to: 7) },
      Change("exchange") { one, two, _ in try one.rename(to: two, flags: .exchange) },
      Change("replace by the other") { one, two, _ in try two.rename(to: one) },
      Change("replace by a link to the other") { one, two, _ in
        try one.unlink()
        try two.link(as: one)
      },
      Change("replace by a copy of the other, without its record") { one, two, _ in
        let bytes = try two.contents()
        try one.unlink()
        try one.write(bytes)
      },
      Change("the other's contents") { one, two, _ in try one.write(two.contents()) },
      Change("the other's record") { one, two, _ in
        try one.setExtendedAttribute(record, to: two.extendedAttribute(record))
      },
      Change("no record") { one, _, _ in try one.removeExtendedAttribute(record) },
      Change("a directory instead") { one, _, _ in
        try one.unlink()
        try one.makeDirectory()
      },
      Change("a symbolic link instead") { one, two, _ in
        try one.unlink()
        try one.makeSymbolicLink(to: two)
      },
      Change("rename the directory") { _, _, d in
        try d.rename(to: PathName(bytes: d.bytes + Array(".moved".utf8)))
      },
      Change("another directory's record") { _, _, d in
        let root = PathName(bytes: d.bytes[..<d.bytes.lastIndex(of: UInt8(ascii: "/"))!])
        try d.setExtendedAttribute(record, to: root.extendedAttribute(record))
      },
    ]

    /// With and without a lasting cache, opened before and not, from the cache and past it.
    @Test(arguments: ["allow_other", "allow_other,shared"]) func neverAnothersContent(options: String) throws {
      try Volume.withFaults(["-o", options]) { volume, _ in
        for (number, change) in Self.changes.enumerated() {
          for isOpen in [false, true] {
            try expectOwn(after: change, in: volume.path("\(number) \(isOpen)"), volume, isOpen: isOpen)
          }
        }
        // Whatever happened to them, their neighbours and the daemon still work.
        try volume.path("alive").write("yes")
        #expect(try volume.status().state == .unlocked)
      }
    }

    private func expectOwn(after change: Change, in d: PathName, _ volume: Volume, isOpen: Bool) throws {
      try d.makeDirectory()
      let (one, two) = (d.appending("one"), d.appending("two"))
      try one.write(Self.own)
      try two.write(Self.others)
      let backing = try volume.backing.child(d.status().inode)
      let (backingOne, backingTwo) = try (backing.child(one.status().inode), backing.child(two.status().inode))
      let open = try isOpen ? OpenFile(one, O_RDONLY) : nil
      try change.make(backingOne, backingTwo, backing)
      // A file that was moved to the name is found under it, as it should be.
      let isMoved = ["exchange", "replace by the other", "replace by a link to the other"].contains(change.name)
      for flags in [0, OpenFile.direct, 0] {
        expectOwn("\(change.name), by name", mayBeOthers: isMoved) { () throws(Errno) in
          try OpenFile(one, O_RDONLY | flags).read(at: 0, count: Self.own.count)
        }
        guard let open else { continue }
        expectOwn("\(change.name), open") { () throws(Errno) in try open.read(at: 0, count: Self.own.count) }
      }
    }

    private static let own = pattern(1, count: 9000)
    private static let others = pattern(2, count: 9000)

    private func expectOwn(
      _ way: String, mayBeOthers: Bool = false, _ read: () throws(Errno) -> [UInt8]
    ) {
      do throws(Errno) {
        let bytes = try read()
        if mayBeOthers && bytes == Self.others { return }
        // Sixteen bytes are a block: none may be the other file's.
        for start in stride(from: 0, to: bytes.count - 15, by: 16) {
          let isOthers = bytes[start..<start + 16].elementsEqual(Self.others[start..<start + 16])
          #expect(!isOthers, "\(way): the other's bytes at \(start)")
          if isOthers { return }
        }
      } catch {
        // A directory fails with EINVAL for O_DIRECT.
        let known: [Errno] = [
          .staleNFSFileHandle, .ioError, .noSuchFileOrDirectory, .isDirectory, .tooManySymbolicLinkLevels,
          .invalidArgument,
        ]
        #expect(known.contains(error), "\(way): \(error)")
      }
    }

    /// A store is on one file system: what is mounted in its directory is listed, refused and said, and a rotation
    /// keeps the old class key for it.
    @Test func whatIsMountedInTheBackingDirectoryIsRefused() throws {
      try Volume.with { volume in
        let (directory, other) = (volume.path("directory"), volume.path("other"))
        let file = directory.appending("file")
        try directory.makeDirectory()
        try file.write("contents")
        try other.write("other")
        let backing = try volume.backingFile(of: directory)
        try volume.unmount()
        try #require(try Program.run(["mount", "--bind", backing.description, backing.description]).succeeded)
        do {
          defer { try? backing.unmount(isLazy: true) }
          try volume.mount()
          try volume.unlock()
          #expect(throws: Errno.improperLink) { try file.contents() }
          #expect(throws: Errno.improperLink) { try directory.makeDirectory() }
          #expect(try Set(volume.mountPoint.names()) == ["directory", "other"])
          #expect(volume.log.contains("something is mounted in the backing directory"), "\(volume.log)")
          let rotation = try volume.rotateByRecoveryKey(.completeUntilFirstUserAuthentication)
          #expect(!rotation.succeeded && rotation.output.contains("kept"), "\(rotation.output)")
          #expect(try other.contents() == Array("other".utf8))
          try volume.unmount()
        }
        try volume.mount()
        try volume.unlock()
        #expect(try file.contents() == Array("contents".utf8))
      }
    }
  }
}

extension PathName {
  /// The path of the file with an inode number in this directory.
  fileprivate func child(_ inode: UInt64) throws(Errno) -> PathName {
    for name in try names() {
      let path = appending(bytes: Array(name.bytes))
      if try path.status().inode == inode { return path }
    }
    throw .noSuchFileOrDirectory
  }
}
