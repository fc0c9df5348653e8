import Glibc
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage
import Testing

extension MountTests {
  /// Rotations of trees in which the daemon may not do everything.
  @Suite struct KeptFilesTests {
    /// Modes that deny the owner access stop neither a rotation nor a check, and do not change.
    @Test(.enabled(if: Mounter.all.contains(.ordinaryUser), "an ordinary user cannot mount here"))
    func modesOfAnOrdinaryUserKeepNothing() throws {
      try Mounter.ordinaryUser.withVolume { volume in
        let key = try volume.recoveryKeyFile()
        #expect(try Program.run(["chown", "--reference", volume.backing.description, key]).succeeded)
        // Only the user may access the mount.
        func run(_ script: String) throws -> Program.Result {
          try Program.run(
            Mounter.ordinaryUser.launcher
              + ["sh", "-c", "cd \"$2\" && \(script)", Command.path, key, volume.mountPoint.description])
        }
        #expect(try run("mkdir -p o/i; echo x > o/i/x; echo y > o/y").succeeded)
        let find = ["find", volume.backing.description, "-mindepth", "1", "-name", ".protectfs", "-prune", "-o"]
        let backing = try Program.run(find + ["-type", "d", "-print"]).output.split(separator: "\n")
          .map { PathName(String($0)) }
        try #require(backing.count == 2)
        var last: [ClassKeyID] = []
        for (outer, inner) in [("000", "700"), ("600", "600"), ("700", "000"), ("300", "111"), ("000", "000")] {
          #expect(try run("chmod 0 o/i/x && chmod \(inner) o/i && chmod \(outer) o").succeeded)
          let result = try run("\"$0\" rotate --class C --recovery-key-file \"$1\" \"$2\"")
          #expect(result.succeeded, "\(outer), \(inner): \(result.output)")
          let keybag = try KeybagRecord(parsing: volume.backing.appending(".protectfs/keybag").contents())
          let entries = keybag.classEntries.filter { $0.fileClass == .completeUntilFirstUserAuthentication }
          #expect(entries.count == 1 && entries.map(\.id) != last, "\(outer), \(inner)")
          last = entries.map(\.id)
          let modes = try backing.map { String(try $0.status().mode & 0o777, radix: 8) }
          #expect(modes == [outer, inner].map { String(UInt32($0, radix: 8)!, radix: 8) })
          let after = try run("chmod 700 o && chmod 700 o/i && stat -c %a o/i/x && chmod 600 o/i/x && cat o/i/x o/y")
          #expect(after.output == "0\nx\ny\n", "\(outer), \(inner): \(after.output)")
        }
        #expect(try run("chmod 600 o/i && chmod 0 o").succeeded)
        try volume.unmount()
        let check = try Program.run(
          Mounter.ordinaryUser.launcher
            + [Command.path, "fsck", "--recovery-key-file", key, volume.backing.description])
        #expect(check.output.contains("4 entries, 0 errors, 0 notes"), "\(check.output)")
        #expect(try backing.map { try $0.status().mode & 0o777 } == [0, 0o600])
      }
    }

    /// A file that cannot be changed keeps the old key. The others get the new one, another run adds no more keys, and
    /// once the file can be changed the old key is removed.
    @Test(.enabled(if: getuid() == 0, "only root may make files immutable"))
    func anImmutableFileKeepsTheOldKey() throws {
      try Volume.with { volume in
        for name in ["x", "y", "z"] { try volume.path(name).write(name) }
        let backing = try volume.backingFile(of: volume.path("y"))
        guard try Program.run(["chattr", "+i", backing.description]).succeeded else { return }
        defer { _ = try? Program.run(["chattr", "-i", backing.description]) }
        let old = try volume.keyIDs(of: .completeUntilFirstUserAuthentication)
        var keys: [ClassKeyID] = []
        for round in 1...3 {
          let result = try volume.rotateByRecoveryKey(.completeUntilFirstUserAuthentication)
          #expect(result.ending == .exited(15), "\(round): \(result.ending) \(result.output)")
          #expect(result.output.contains("1 files or directories could not be given the new key"), "\(result.output)")
          if keys.isEmpty { keys = try volume.keyIDs(of: .completeUntilFirstUserAuthentication) }
          #expect(keys.count == 2 && keys.first == old.first)
          #expect(try volume.keyIDs(of: .completeUntilFirstUserAuthentication) == keys, "\(round)")
          let found = try ["x", "y", "z"].map { try volume.record(of: volume.path($0)).classKeyID }
          #expect(found == [keys[1], keys[0], keys[1]])
        }
        #expect(
          volume.log.contains("a file cannot be given the new class key") && volume.log.contains(backing.lastName))
        try volume.remount()
        try volume.unlock()
        for name in ["x", "y", "z"] { #expect(try volume.path(name).contents() == Array(name.utf8)) }
        #expect(try Program.run(["chattr", "-i", backing.description]).succeeded)
        #expect(try volume.rotateByRecoveryKey(.completeUntilFirstUserAuthentication).succeeded)
        let new = try volume.keyIDs(of: .completeUntilFirstUserAuthentication)
        #expect(new.count == 1 && !keys.contains(new[0]))
        for name in ["x", "y", "z"] { #expect(try volume.path(name).contents() == Array(name.utf8)) }
      }
    }
  }
}

extension PathName {
  /// The last component of a path.
  fileprivate var lastName: String { String(description.split(separator: "/").last ?? "") }
}
