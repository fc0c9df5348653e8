import CSystemCalls
import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage
import Testing

extension MountTests {
  /// Export, import, reset and restoration of keybags.
  @Suite struct KeybagCommandTests {
    private static let backupPasscode = "a backup passcode"

    /// Keys are lost: files of classes A, B, C and CX are revoked, also while locked, and come back with the old
    /// keybag.
    @Test func reset() throws {
      try Volume.store { volume in
        try volume.mount()
        try volume.unlock()
        try Self.makeFiles(on: volume)
        let refused = try volume.command("keybag", "reset", "--yes", on: volume.backing)
        #expect(refused.ending == .exited(7), "a mounted store is not reset: \(refused.output)")
        try volume.unmount()
        let new = try volume.passcodeFile("new", "another passcode")
        let result = try volume.command("keybag", ["reset", "--yes", "--new-passcode-file", new])
        #expect(result.succeeded, "\(result.output)")
        try volume.mount()
        for state in ["before first unlock", "unlocked", "locked"] {
          if state == "unlocked" { try volume.unlock("another passcode") }
          if state == "locked" { try volume.lock() }
          for fileClass in ProtectionClass.allCases {
            let file = volume.path(fileClass.letter).appending("file")
            if fileClass == .none {
              #expect(try file.contents() == Array("of class D".utf8), "\(state)")
            } else {
              #expect(throws: keyRevoked, "\(state)") { try OpenFile(file, O_RDONLY) }
              #expect(throws: keyRevoked, "\(state)") { try file.truncate(to: 0) }
              #expect(throws: keyRevoked, "\(state)") { try file.extendedAttribute("user.note") }
            }
            #expect(try file.status().size > 0)
          }
        }
        try volume.unlock("another passcode")
        let status = try Command.run(["status", "--json", volume.path("A").appending("file").description])
        #expect(status.output.contains("keyRevoked"), "\(status.output)")
        try volume.path("A").appending("new").write("new")
        #expect(throws: ControlError.self) { try volume.unlock(Volume.passcode) }
        try volume.unmount()
        #expect(
          try Command.run(["fsck", "--device-key", volume.deviceKey.description, volume.backing.description]).succeeded)

        // The passcode was found after all.
        #expect(try volume.command("keybag", ["restore", "--yes"]).succeeded)
        try volume.mount()
        try volume.unlock(Volume.passcode)
        try Self.expectFiles(on: volume)
        // Files written since are not lost either: the other keybag opens them.
        let newer = volume.path("A").appending("new")
        #expect(throws: keyMissing) { try OpenFile(newer, O_RDONLY) }
        #expect(volume.log.contains("a class key that the keybag does not have"))
        let ofNewer = try Command.run(["status", newer.description])
        #expect(ofNewer.output.contains("no: the keybag does not have its class key"), "\(ofNewer.output)")
        for words in [["list"], ["purge", "--yes"]] {
          let orphans = try Command.run(["orphans"] + words + [volume.mountPoint.description])
          #expect(orphans.succeeded, "\(orphans.output)")
          #expect(orphans.output.contains("1 file under class keys that the keybag does not have"), "\(orphans.output)")
        }
        try volume.unmount()
        #expect(try volume.command("fsck", "--repair", on: volume.backing).ending == .exited(4))
        #expect(try volume.command("keybag", ["restore", "--yes"]).succeeded)
        try volume.mount()
        try volume.unlock("another passcode")
        #expect(try newer.contents() == Array("new".utf8))
      }
    }

    /// The ciphertext is copied while the store is locked, and opened on a machine without the device key.
    @Test func aCopyIsOpenedElsewhere() throws {
      try Volume.store { volume in
        try volume.mount()
        try volume.unlock()
        try Self.makeFiles(on: volume)
        let backup = volume.directory.appending("backup.keybag")
        let secret = try volume.passcodeFile("secret", Self.backupPasscode)
        let passcode = ["--passcode-file", volume.passcodeFile.description]
        let exported = try volume.command(
          "keybag", ["export", "--backup", backup.description, "--backup-passcode-file", secret] + passcode)
        #expect(exported.succeeded, "\(exported.output)")
        #expect(try backup.status().mode & 0o777 == 0o600)
        #expect(try KeybagRecord(parsing: backup.contents()).protectors.count == 1)
        try volume.lock()
        try volume.shell("cp -a backing copy", in: ".")
        try volume.unmount()

        let (copy, home) = (volume.directory.appending("copy"), volume.directory.appending("home"))
        let elsewhere = ["XDG_CONFIG_HOME": home.description, "HOME": home.description]
        try home.makeDirectory()
        func run(_ words: [String]) throws -> Program.Result {
          try Program.run(
            ["unshare", "--mount", "sh", "-c", Self.withoutSystemKeys, Command.path] + words, environment: elsewhere)
        }
        let wrong = try volume.passcodeFile("wrong", "not it")
        let new = try volume.passcodeFile("new", "a new passcode")
        let words = ["keybag", "import", "--replace", "--backup", backup.description, "--new-passcode-file", new]
        let refused = try run(words + ["--backup-passcode-file", wrong, copy.description])
        #expect(refused.ending == .exited(3), "\(refused.output)")
        let result = try run(words + ["--backup-passcode-file", secret, copy.description])
        #expect(result.succeeded, "\(result.output)")
        // The device's part of the keys came from the exported keybag.
        let key = try #require(try home.names().first { $0.description.hasSuffix(".key") })
        let mounted = try Command.run([
          "mount", copy.description, volume.mountPoint.description, "--passcode-file", new, "--device-key",
          home.appending(bytes: Array(key.bytes)).description,
        ])
        defer { _ = try? Command.run(["unmount", volume.mountPoint.description]) }
        #expect(mounted.succeeded, "\(mounted.output)")
        try Self.expectFiles(on: volume)
      }
    }

    /// Root's device keys are in `/etc`. For one command, an empty directory is mounted over it, and the keys stored
    /// there are moved to `$HOME`.
    private static let withoutSystemKeys = """
      mount -t tmpfs none /etc && "$0" "$@"; status=$?
      if [ -d /etc/protectfs ]; then cp /etc/protectfs/*.key "$HOME"; fi; exit $status
      """

    /// An exported keybag brings back erased keys.
    @Test func erasedClassesComeBack() throws {
      try Volume.store { volume in
        try volume.mount()
        try volume.unlock()
        try Self.makeFiles(on: volume)
        let backup = volume.directory.appending("backup.keybag").description
        let secret = try volume.passcodeFile("secret", Self.backupPasscode)
        let passcode = ["--passcode-file", volume.passcodeFile.description]
        let export = ["export", "--backup", backup, "--backup-passcode-file", secret] + passcode
        #expect(try volume.command("keybag", export).succeeded)
        for fileClass in ["A", "B", "D"] {
          #expect(try volume.command("erase", ["--class", fileClass, "--yes"] + passcode).succeeded)
        }
        try volume.path("A").appending("after").write("after")
        try volume.unmount()
        let words = ["import", "--backup", backup, "--backup-passcode-file", secret]
        let result = try volume.command("keybag", words + passcode)
        #expect(result.succeeded, "\(result.output)")
        try volume.mount()
        try volume.unlock()
        try Self.expectFiles(on: volume)
        #expect(try volume.path("A").appending("after").contents() == Array("after".utf8))
        let keys = try volume.keyIDs(of: .complete)
        #expect(keys.count == 2)
        #expect(try volume.record(of: volume.path("A").appending("after")).classKeyID == keys.last)
        #expect(try volume.rotate(.complete).succeeded)
        #expect(try volume.keyIDs(of: .complete).count == 1 && !keys.contains(volume.keyIDs(of: .complete)[0]))
        try Self.expectFiles(on: volume)
      }
    }

    @Test func foreignKeybagsAreRefused() throws {
      try Volume.store { volume in
        let secret = try volume.passcodeFile("secret", Self.backupPasscode)
        let backup = volume.directory.appending("backup.keybag")
        let passcode = ["--passcode-file", volume.passcodeFile.description]
        try Volume.store { other in
          let words = ["export", "--backup", backup.description, "--backup-passcode-file", secret]
          let exported = try other.command(
            "keybag", words + ["--passcode-file", other.passcodeFile.description])
          #expect(exported.succeeded)
        }
        let before = try volume.ownFiles()
        for words in [passcode, ["--replace", "--new-passcode-file", secret]] {
          let result = try volume.command(
            "keybag", ["import", "--backup", backup.description, "--backup-passcode-file", secret] + words)
          #expect(!result.succeeded && result.output.contains("another store"), "\(result.output)")
        }
        // The store's own keybag is not an exported one.
        let own = volume.backing.appending(".protectfs/keybag").description
        let result = try volume.command(
          "keybag", ["import", "--backup", own, "--backup-passcode-file", secret] + passcode)
        #expect(result.output.contains("was not exported"), "\(result.output)")
        #expect(try volume.ownFiles() == before)
      }
    }

    /// A reset that ends after any of its calls: the old recovery key opens the store, or the new passcode does.
    @Test func aResetCutShort() throws {
      try Volume.store { volume in
        let faults = try Faults(of: volume)
        let before = try volume.ownFiles()
        let new = try volume.passcodeFile("new", "another passcode")
        for number in Faults.places {
          try volume.putBack(before)
          faults.arm(.end, at: number, of: .changes)
          let result = try Program.run(
            [
              Command.path, "keybag", "reset", "--yes", "--new-passcode-file", new, "--device-key",
              volume.deviceKey.description, volume.backing.description,
            ], environment: faults.environment)
          faults.disarm()
          guard let hit = faults.hit else {
            #expect(result.succeeded, "\(result.output)")
            break
          }
          let opens = [nil, "another passcode"].map { volume.refusal(of: $0) == nil }
          #expect(opens[0] != opens[1], "after call \(number), \(hit): \(opens)")
        }
      }
    }

    private static func makeFiles(on volume: Volume) throws {
      for fileClass in ProtectionClass.allCases {
        try volume.path(fileClass.letter).makeDirectory(of: fileClass)
        let file = volume.path(fileClass.letter).appending("file")
        try file.write("of class \(fileClass.letter)")
        try file.setExtendedAttribute("user.note", to: [1])
      }
    }

    private static func expectFiles(on volume: Volume) throws {
      for fileClass in ProtectionClass.allCases {
        let file = volume.path(fileClass.letter).appending("file")
        #expect(try file.contents() == Array("of class \(fileClass.letter)".utf8))
        #expect(try file.extendedAttribute("user.note") == [1])
      }
    }
  }
}
