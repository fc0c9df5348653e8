import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// Shows what SECURITY.md says protectfs does not prevent. A change here needs a change of the document.
  @Suite struct TamperingTests {
    private static let unit = 4096

    /// An attacker who writes the backing directory and has no key.
    @Test func contentsCanBeChangedBlind() throws {
      try Volume.with { volume in
        let path = volume.path("file")
        let (old, new) = (pattern(1, count: 3 * Self.unit), pattern(2, count: 3 * Self.unit))
        try path.write(old)
        let backing = try volume.backingFile(of: path)
        try volume.unmount()
        let before = try backing.contents()
        try volume.mount()
        try volume.unlock(Volume.passcode)
        try path.write(new)
        try volume.unmount()

        var changed = try backing.contents()
        // Blocks of 16 bytes from before, a unit of zeros, and a shorter length.
        changed.replaceSubrange(32..<48, with: before[32..<48])
        for index in Self.unit..<2 * Self.unit { changed[index] = 0 }
        try OpenFile(backing, O_RDWR).write(changed, at: 0)
        try backing.truncate(to: 2 * Self.unit + 16)
        try volume.mount()
        try volume.unlock(Volume.passcode)
        let read = try path.contents()
        #expect(read.count == 2 * Self.unit + 16)
        #expect(Array(read[..<32]) == Array(new[..<32]) && Array(read[32..<48]) == Array(old[32..<48]))
        #expect(Array(read[48..<Self.unit]) == Array(new[48..<Self.unit]))
        #expect(read[Self.unit..<2 * Self.unit].allSatisfy { $0 == 0 })
      }
    }

    /// An attacker who has several copies of a store and no key.
    @Test func copiesShowWhichBlocksChanged() throws {
      try Volume.with { volume in
        let path = volume.path("file")
        try path.write(pattern(1, count: 3 * Self.unit))
        let backing = try volume.backingFile(of: path)
        try volume.unmount()
        let before = try backing.contents()
        try volume.mount()
        try volume.unlock(Volume.passcode)
        try OpenFile(path, O_RDWR).write([UInt8](repeating: 7, count: 16), at: Self.unit + 64)
        try volume.unmount()
        let after = try backing.contents()
        let changed = stride(from: 0, to: after.count, by: 16).filter { before[$0..<$0 + 16] != after[$0..<$0 + 16] }
        #expect(changed == [Self.unit + 64])
      }
    }

    @Test func linksAndClassesCanBeExchanged() throws {
      try Volume.with { volume in
        let (one, two, diary) = (volume.path("one"), volume.path("two"), volume.path("diary"))
        try one.makeSymbolicLink(to: "/bin/true")
        try two.makeSymbolicLink(to: "/bin/false")
        try diary.write("of class A")
        try diary.setProtectionClass(.complete)
        let links = try (volume.backingFile(of: one), volume.backingFile(of: two))
        let backing = try volume.backingFile(of: diary)
        try volume.unmount()
        let target = PathName(bytes: try links.1.symbolicLinkTarget())
        try links.0.unlink()
        try links.0.makeSymbolicLink(to: target)
        try backing.unlink()
        try volume.mount()
        try volume.unlock(Volume.passcode)
        #expect(try one.symbolicLinkTarget() == Array("/bin/false".utf8))
        // The next writer creates a new file, which takes its directory's class.
        try diary.write("no longer of class A")
        #expect(try diary.protectionClass() == .completeUntilFirstUserAuthentication)
      }
    }

    /// A pipe holds pages that it took before the lock, as any program holds what it has read.
    @Test func whatAPipeTookOutStaysOut() throws {
      try Volume.with { volume in
        let path = volume.path("file")
        try path.write("taken before the lock")
        try path.setProtectionClass(.complete)
        let (taken, locked) = (volume.directory.appending("taken"), volume.directory.appending("locked"))
        let script = """
          import os, sys, time
          file, (end, start) = os.open(sys.argv[1], os.O_RDONLY), os.pipe()
          os.splice(file, start, 4096)
          open(sys.argv[2], "w").close()
          while not os.path.exists(sys.argv[3]): time.sleep(0.01)
          print(os.read(end, 4096).decode())
          try: os.pread(file, 1, 0)
          except PermissionError: print("refused")
          """
        let program = try Program(
          ["python3", "-c", script, path.description, taken.description, locked.description],
          output: volume.directory.appending("output"))
        eventually { taken.exists }
        try volume.lock()
        try locked.write("")
        #expect(program.wait() == .exited(0))
        #expect(program.output == "taken before the lock\nrefused\n", "\(program.output)")
      }
    }
  }
}
