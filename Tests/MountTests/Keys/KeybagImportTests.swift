import CSystemCalls
import Glibc
import KeyManagement
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage
import Testing

extension MountTests {
  /// An exported keybag replaces the store's, while another keybag has keys that it lacks.
  @Suite struct KeybagImportTests {
    private static let standard = ProtectionClass.completeUntilFirstUserAuthentication

    /// The keybag is damaged, missing, or an old one from a backup. Its second copy opens everything.
    @Test(arguments: ["damaged", "malformed", "missing", "stale"]) func aGoodSecondCopyIsNotLost(_ how: String) throws {
      try Volume.store { volume in
        let keybag = volume.backing.appending(".protectfs/keybag")
        let old = try keybag.contents()
        let words = try export(volume)
        try volume.mount()
        try volume.unlock()
        #expect(try volume.rotate(Self.standard).succeeded)
        try volume.path("file").write("a file")
        let key = try volume.record(of: volume.path("file")).classKeyID
        try volume.unmount()
        var bytes = try keybag.contents()
        switch how {
        case "damaged": bytes[300] ^= 1
        case "malformed": bytes[2] ^= 1
        case "stale": bytes = old
        default: break
        }
        try keybag.write(bytes)
        if how == "missing" { try keybag.unlink() }
        #expect(try volume.refusedMount().output.contains("keybag restore"))

        let before = try volume.ownFiles()
        let refused = try Program.run(
          ["setsid", "--wait", Command.path] + words
            + ["--device-key", volume.deviceKey.description, volume.backing.description])
        #expect(refused.ending == .exited(1), "\(refused.output)")
        #expect(refused.output.contains("C (key \(key))") && refused.output.contains("keybag restore"))
        #expect(try volume.ownFiles() == before)

        // Imported nevertheless, on request: nothing but the file is lost, and not yet.
        let imported = try volume.command(words[0], Array(words[1...]) + ["--yes"])
        #expect(imported.succeeded, "\(imported.output)")
        try volume.mount()
        try volume.unlock("another passcode")
        #expect(throws: keyMissing) { try OpenFile(volume.path("file"), O_RDONLY) }
        try volume.unmount()
        #expect(try volume.command("keybag", ["restore", "--yes"]).succeeded)
        try volume.mount()
        try volume.unlock()
        #expect(try volume.path("file").contents() == Array("a file".utf8))
      }
    }

    /// The available device key is not written beside it in plain.
    @Test func noDeviceKeyIsLeft() throws {
      try Volume.store { volume in
        let words = try export(volume)
        let imported = try volume.command(words[0], Array(words[1...]))
        #expect(imported.succeeded, "\(imported.output)")
        let id = try KeybagRecord(parsing: volume.keybagFile().read()).storeID
        #expect(throws: Errno.noSuchFileOrDirectory) { try PathName("/etc/protectfs/\(id).key").status() }
        #expect(!imported.output.contains(".key"), "\(imported.output)")
      }
    }

    /// Keybags that diverged: each has keys of its own, and an import combines them.
    @Test func keysOfBothComeTogether() throws {
      try Volume.store { volume in
        let new = try volume.passcodeFile("new", "another passcode")
        #expect(try volume.command("keybag", ["reset", "--yes", "--new-passcode-file", new]).succeeded)
        try volume.mount()
        try volume.unlock("another passcode")
        try volume.path("file").write("a file")
        let backup = volume.directory.appending("backup").description
        let passcodes = ["--backup-passcode-file", new, "--passcode-file", new]
        #expect(try volume.command("keybag", ["export", "--backup", backup] + passcodes).succeeded)
        try volume.unmount()
        #expect(try volume.command("keybag", ["restore", "--yes"]).succeeded)
        try volume.mount()
        try volume.unlock()
        try volume.path("older").write("older")
        #expect(try volume.rotate(Self.standard).succeeded)
        let current = try volume.keyIDs(of: Self.standard)
        #expect(current.count == 1)
        try volume.path("newer").write("newer")
        try volume.path("A").makeDirectory(of: .complete)
        try volume.path("A").appending("file").write("of class A")
        #expect(throws: keyMissing) { try OpenFile(volume.path("file"), O_RDONLY) }
        try volume.unmount()
        let passcode = ["--passcode-file", volume.passcodeFile.description]
        let imported = try volume.command(
          "keybag", ["import", "--backup", backup, "--backup-passcode-file", new] + passcode)
        #expect(imported.succeeded, "\(imported.output)")
        try volume.mount()
        try volume.unlock()
        for (name, text) in [("file", "a file"), ("older", "older"), ("newer", "newer"), ("A/file", "of class A")] {
          #expect(try volume.path(name).contents() == Array(text.utf8))
        }
        let keys = try volume.keyIDs(of: Self.standard)
        #expect(keys.count == 2 && keys.last == current.last)
      }
    }

    /// A keybag from before an import, put back below a mount that has the keys: no change makes it the only one.
    @Test func aKeybagThatWasPutBackIsNotChanged() throws {
      try Volume.with { volume in
        let backup = volume.directory.appending("backup").description
        let secret = [
          "--backup", backup, "--backup-passcode-file", try volume.passcodeFile("secret", "a backup passcode"),
        ]
        let passcode = ["--passcode-file", volume.passcodeFile.description]
        try volume.unmount()
        let before = try volume.ownFiles()
        try volume.mount()
        try volume.unlock(recoveryKey: volume.recoveryKey)
        #expect(volume.rotateThroughSocket(Self.standard) == nil)
        try volume.path("file").write("under a new key")
        #expect(try volume.command("keybag", ["export"] + secret + passcode).succeeded)
        try volume.unmount()
        try volume.putBack(before)
        #expect(try volume.command("keybag", ["import"] + secret + passcode).succeeded)
        try volume.mount()
        try volume.unlock(recoveryKey: volume.recoveryKey)
        let keybag = volume.backing.appending(".protectfs/keybag")
        try keybag.write(before["keybag"]!)
        let error = volume.rotateThroughSocket(Self.standard)
        #expect(error?.message.contains("another keybag was put in place") == true, "\(error?.message ?? "none")")
        #expect(try keybag.contents() == before["keybag"])
        #expect(try volume.path("file").contents() == Array("under a new key".utf8))
        // Without a mount, a change adopts the keys of the second copy.
        try volume.unmount()
        let file = try volume.passcodeFile("new", "another passcode")
        let added = try volume.command("key", ["add", "--new-passcode-file", file] + passcode)
        #expect(added.succeeded, "\(added.output)")
        try volume.mount()
        try volume.unlock(recoveryKey: volume.recoveryKey)
        #expect(try volume.path("file").contents() == Array("under a new key".utf8))
      }
    }

    /// A restoration, or an import over a damaged keybag, that ends after any of its calls: no keybag that opens is
    /// lost.
    @Test func whatIsCutShortLosesNothing() throws {
      try Volume.store { volume in
        let words = try export(volume)
        let new = try volume.passcodeFile("new", "another passcode")
        #expect(try volume.command("keybag", ["reset", "--yes", "--new-passcode-file", new]).succeeded)
        let before = try volume.ownFiles()
        let (keybag, previous) = (before["keybag"], before["keybag.previous"])
        #expect(keybag != previous)
        try expectEachCutShort(volume, ["keybag", "restore", "--yes"], from: before) { files in
          [files["keybag"], files["keybag.previous"]] == [keybag, previous]
            || [files["keybag"], files["keybag.previous"]] == [previous, keybag]
        }
        // Where names cannot be exchanged, the next start finds both again.
        try expectEachCutShort(
          volume, ["keybag", "restore", "--yes"], from: before, of: [.changes, .withoutExchange], isRepaired: true
        ) { files in
          [files["keybag"], files["keybag.previous"]] == [keybag, previous]
            || [files["keybag"], files["keybag.previous"]] == [previous, keybag]
        }
        #expect(try volume.ownFiles()["keybag"] == previous)
        var damaged = before
        damaged["keybag"]?[300] ^= 1
        try expectEachCutShort(volume, words + ["--yes"], from: damaged) { $0["keybag.previous"] == previous }
        #expect(try volume.command("keybag", ["restore", "--yes"]).succeeded)
        #expect(volume.refusal() == nil)
      }
    }

    private func expectEachCutShort(
      _ volume: Volume, _ words: [String], from before: [String: [UInt8]], of kinds: Faults.Kinds = .changes,
      isRepaired: Bool = false, _ holds: ([String: [UInt8]]) -> Bool
    ) throws {
      let faults = try Faults(of: volume)
      for number in Faults.places {
        try volume.putBack(before)
        faults.arm(.end, at: number, of: kinds)
        let result = try Program.run(
          [Command.path] + words + ["--device-key", volume.deviceKey.description, volume.backing.description],
          environment: faults.environment)
        faults.disarm()
        if isRepaired { try volume.repair() }
        #expect(try holds(volume.ownFiles()), "call \(number), \(faults.hit ?? "none"): \(result.output)")
        if faults.hit == nil { return #expect(result.succeeded, "\(result.output)") }
      }
    }

    /// The arguments of an import that replaces the store's keybag by an export of the current one.
    private func export(_ volume: Volume) throws -> [String] {
      let backup = volume.directory.appending("backup").description
      let secret = try volume.passcodeFile("secret", "a backup passcode")
      let exported = try volume.command(
        "keybag",
        [
          "export", "--backup", backup, "--backup-passcode-file", secret, "--recovery-key-file",
          volume.recoveryKeyFile(),
        ])
      #expect(exported.succeeded, "\(exported.output)")
      let new = try volume.passcodeFile("new", "another passcode")
      return [
        "keybag", "import", "--replace", "--backup", backup, "--backup-passcode-file", secret, "--new-passcode-file",
        new,
      ]
    }
  }
}
