import Glibc
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage
import Testing

extension MountTests {
  /// A rekey that has not finished waits across locks and mounts, and the file does not change meanwhile.
  @Suite struct PendingRekeyTests {
    /// Put into class B while locked: the key can be wrapped, but not used.
    @Test func itWaitsForTheUnlock() throws {
      try Volume.with { volume in
        let file = volume.path("file")
        try file.write(pattern(1, count: 20_000))
        try file.setExtendedAttribute("user.note", to: [1, 2])
        try volume.lock()
        try file.setProtectionClass(.completeUnlessOpen)
        #expect(try file.isRekeyPending())
        try volume.waitForRekeys()
        #expect(try volume.status().lockedRekeys == 1)
        let told = try Command.run(["status", volume.mountPoint.description])
        #expect(told.output.contains("1 file to be encrypted anew, 1 after an unlock"), "\(told.output)")
        #expect(throws: Errno.permissionDenied) { try file.contents() }
        try volume.unmount()
        let info = try volume.command("info")
        #expect(info.output.contains("pending for 1 file"), "\(info.output)")
        #expect(try volume.notesOfCheck("pending") == ["rekey-pending"])
        try volume.mount()
        #expect(try file.isRekeyPending())
        try volume.unlock()
        try expectSame(file.contents(), pattern(1, count: 20_000))
        try volume.waitForRekeys()
        #expect(try !file.isRekeyPending())
        try expectSame(file.contents(), pattern(1, count: 20_000))
        #expect(try file.extendedAttribute("user.note") == [1, 2])
        try volume.unmount()
        #expect(try volume.notesOfCheck("done") == [])
        #expect(!volume.backing.appending(".protectfs/rekey.0").exists)
      }
    }

    /// Locked in the middle of a long file, repeatedly.
    @Test func aLockInTheMiddle() throws {
      try Volume.with { volume in
        let file = volume.path("file")
        let contents = pattern(2, count: 8 << 20)
        try file.write(contents)
        try file.setProtectionClass(.complete)
        for turn in 0..<4 {
          usleep([1000, 30_000, 8000, 17_000][turn])
          try volume.lock()
          #expect(throws: Errno.permissionDenied) { try file.contents() }
          if turn % 2 == 0 { try volume.remount() }
          try volume.unlock()
        }
        try expectSame(file.contents(), contents)
        try volume.waitForRekeys()
        try expectSame(file.contents(), contents)
        try volume.remount()
        try volume.unlock()
        try expectSame(file.contents(), contents)
      }
    }

    /// Raised again while a rekey is pending: both keys of weaker records are replaced.
    @Test func aSecondRaiseWaitsItsTurn() throws {
      try Volume.with { volume in
        let file = volume.path("file")
        try file.write(pattern(1, count: 20_000))
        let backing = try volume.backingFile(of: file)
        let name = PathName(FileRecord.attributeName)
        try volume.lock()
        try file.setProtectionClass(.completeUnlessOpen)
        let middle = try volume.record(of: file)
        #expect(middle.pending?.isFollowed == false)
        try volume.unlock()
        try volume.waitForRekeys()
        // From C over CX to A without a pause.
        try file.setProtectionClass(.completeUntilFirstUserAuthentication)
        try file.setProtectionClass(.completeWhenUserInactive)
        let weaker = try backing.extendedAttribute(name)
        try file.setProtectionClass(.complete)
        try volume.waitForRekeys()
        let secret = pattern(5, count: 20_000)
        try file.write(secret)
        try volume.unmount()
        try backing.setExtendedAttribute(name, to: weaker)
        try volume.mount()
        try volume.unlock()
        if let found = try? file.contents() { #expect(!found.containsBlocks(of: secret)) }
      }
    }

    /// Attributes are read under either key, and set, replaced and removed meanwhile.
    @Test func attributesMeanwhile() throws {
      try Volume.with { volume in
        let file = volume.path("file")
        try file.write(pattern(1, count: 20_000))
        for name in ["kept", "replaced", "removed"] {
          try file.setExtendedAttribute(PathName("user.\(name)"), to: Array("old \(name)".utf8))
        }
        try volume.lock()
        try file.setProtectionClass(.completeUnlessOpen)
        try file.removeExtendedAttribute("user.removed")
        try volume.remount()
        try volume.unlock()
        try file.setExtendedAttribute("user.replaced", to: Array("new".utf8))
        #expect(try file.extendedAttribute("user.kept") == Array("old kept".utf8))
        try volume.waitForRekeys()
        #expect(try file.extendedAttribute("user.kept") == Array("old kept".utf8))
        #expect(try file.extendedAttribute("user.replaced") == Array("new".utf8))
        #expect(throws: Errno.noData) { try file.extendedAttribute("user.removed") }
      }
    }

    @Test func theClassIsRotatedMeanwhile() throws {
      try Volume.with { volume in
        for number in 0..<12 { try volume.path("\(number)").write(pattern(number, count: 100_000)) }
        try volume.lock()
        for number in 0..<12 { try volume.path("\(number)").setProtectionClass(.completeUnlessOpen) }
        try volume.unlock()
        let result = try Command.run(
          ["rotate", "--class", "B", "--recovery-key-file", volume.recoveryKeyFile(), volume.mountPoint.description])
        #expect(result.succeeded, "\(result.output)")
        try volume.waitForRekeys()
        for number in 0..<12 { #expect(try volume.path("\(number)").contents() == pattern(number, count: 100_000)) }
        try volume.remount()
        try volume.unlock()
        for number in 0..<12 { #expect(try volume.path("\(number)").contents() == pattern(number, count: 100_000)) }
      }
    }

    /// The command waits, and says so if it would wait in vain.
    @Test func theCommandWaits() throws {
      try Volume.with { volume in
        try volume.path("d").makeDirectory()
        for number in 0..<300 { try volume.path("d/\(number)").write(pattern(number, count: 5000)) }
        let result = try Command.run(["class", "set", "-R", "complete", volume.path("d").description])
        #expect(result.succeeded, "\(result.output)")
        #expect(try volume.status().pendingRekeys == 0)
        for number in 0..<300 { #expect(try volume.path("d/\(number)").contents() == pattern(number, count: 5000)) }
        try volume.path("d").setProtectionClass(.completeUntilFirstUserAuthentication)
        try volume.path("d/new").write("x")
        try volume.lock()
        let locked = try Command.run(["class", "set", "completeUnlessOpen", volume.path("d/new").description])
        #expect(locked.ending == .exited(15) && locked.output.contains("after the next unlock"), "\(locked.output)")
        try volume.unlock()
        try volume.waitForRekeys()
        try expectSame(volume.path("d/new").contents(), Array("x".utf8))
      }
    }
  }
}
