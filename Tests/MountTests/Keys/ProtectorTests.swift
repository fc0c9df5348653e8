import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// Each protector opens a store by itself, and is added and removed by itself.
  @Suite struct ProtectorTests {
    @Test(arguments: [true, false]) func eachOpensTheStoreByItself(whileMounted: Bool) throws {
      try Volume.store { volume in
        try volume.mount()
        try volume.unlock()
        try volume.path("file").write("here")
        if !whileMounted { try volume.unmount() }
        let (keyFile, stick) = (volume.directory.appending("key"), volume.directory.appending("stick"))
        let other = try volume.passcodeFile("other", "another passcode")
        let recovery = volume.directory.appending("recovery").description
        let passcode = ["--passcode-file", volume.passcodeFile.description]
        func run(_ words: String...) throws {
          let result = try volume.command("key", words)
          #expect(result.succeeded, "\(words): \(result.output)")
        }
        try run("add", "--new-key-file", keyFile.description, passcode[0], passcode[1])
        #expect(try keyFile.status().mode & 0o777 == 0o600 && keyFile.contents().count == 32)
        try stick.write([UInt8](repeating: 7, count: 1024), mode: 0o600)
        try run("add", "--new-key-file", stick.description, "--label", "stick", "--key-file", keyFile.description)
        try run("add", "--new-passcode-file", other, "--label", "other", "--key-file", stick.description)
        try run("add", "--new-recovery-key-file", recovery, "--label", "safe", "--passcode-file", other)
        let given: Set = ["passcode", "recovery key", "stick", "other", "safe"]
        let labels = try volume.labels()
        #expect(labels.isSuperset(of: given))
        // The file's name, and the day.
        #expect(labels.subtracting(given).map { $0.matches(of: /^key \d{4}-\d\d-\d\d$/).count } == [1])
        for way in [
          passcode, ["--passcode-file", other], ["--key-file", keyFile.description], ["--key-file", stick.description],
          ["--recovery-key-file", recovery],
        ] {
          try run("test", way[0], way[1])
          if whileMounted { try volume.lock() } else { try volume.mount() }
          let unlocked = try Command.run(["unlock", volume.mountPoint.description] + way)
          #expect(unlocked.succeeded, "\(way): \(unlocked.output)")
          #expect(try volume.path("file").contents() == Array("here".utf8))
          if !whileMounted { try volume.unmount() }
        }
      }
    }

    /// A removed protector opens nothing, not even with the keybag that it opened.
    @Test(arguments: [true, false]) func whatIsRemovedOpensNothing(whileMounted: Bool) throws {
      try Volume.store { volume in
        if whileMounted { try volume.mount() }
        let keyFile = volume.directory.appending("key").description
        let passcode = volume.passcodeFile.description
        #expect(try volume.command("key", ["add", "--new-key-file", keyFile, "--passcode-file", passcode]).succeeded)
        let before = try volume.ownFiles()
        func remove(_ way: String, with secret: String...) throws -> Program.Result {
          try Command.run(
            ["key", "remove"] + secret + (whileMounted ? [] : ["--device-key", volume.deviceKey.description])
              + [(whileMounted ? volume.mountPoint : volume.backing).description, way])
        }
        #expect(try remove("key file", with: "--passcode-file", passcode).succeeded)
        let refused = try volume.command("key", ["test", "--key-file", keyFile])
        #expect(refused.ending == .exited(3), "\(refused.output)")
        #expect(try remove("nothing", with: "--passcode-file", passcode).ending == .exited(1))
        #expect(try remove("recovery key", with: "--passcode-file", passcode).succeeded)
        let last = try remove("passcode", with: "--passcode-file", passcode)
        #expect(last.ending == .exited(1) && last.output.contains("last protector"), "\(last.output)")
        #expect(try volume.labels() == ["passcode"])
        #expect(try volume.command("key", ["test", "--passcode-file", passcode]).succeeded)

        // An attacker kept the keybag, but not the effaceable secret of that time.
        if whileMounted { try volume.unmount() }
        let after = try volume.ownFiles()
        var mixed = before
        mixed["effaceable"] = after["effaceable"]
        try volume.putBack(mixed)
        for secret in [["--key-file", keyFile], ["--passcode-file", passcode]] {
          let result = try volume.command("key", ["test"] + secret)
          #expect(result.ending == .exited(8), "\(result.output)")
        }
        #expect(throws: MountFailure.self) { try volume.mount() }
        try volume.putBack(after)
        try volume.mount()
        try volume.unlock(Volume.passcode)
      }
    }

    /// A file that others can read is not accepted as a secret.
    @Test func filesThatOthersCanReadAreRefused() throws {
      try Volume.with { volume in
        let keyFile = volume.directory.appending("key")
        let passcode = volume.passcodeFile
        #expect(
          try volume.command(
            "key", ["add", "--new-key-file", keyFile.description, "--passcode-file", passcode.description]
          ).succeeded)
        try volume.lock()
        let recovery = PathName(try volume.recoveryKeyFile())
        func unlock(_ words: String...) throws -> Program.Result {
          try Command.run(["unlock", volume.mountPoint.description] + words)
        }
        for (option, file) in [
          ("--key-file", keyFile), ("--passcode-file", passcode), ("--recovery-key-file", recovery),
        ] {
          for mode in [0o640, 0o604, 0o620, 0o644] as [UInt32] {
            try file.setMode(mode)
            let result = try unlock(option, file.description)
            #expect(result.ending == .exited(11) && result.output.contains("0600"), "\(result.output)")
            #expect(try volume.status().state == .locked)
          }
          #expect(try unlock(option, file.description, "--insecure-file").succeeded, "who wants that may")
          try volume.lock()
          try file.setMode(0o400)
          #expect(try unlock(option, file.description).succeeded)
          try volume.lock()
        }
        for count in [0, 31, 1025] {
          let bad = volume.directory.appending("bad.\(count)")
          try bad.write([UInt8](repeating: 1, count: count), mode: 0o600)
          let result = try volume.command("key", ["test", "--key-file", bad.description])
          #expect(result.ending == .exited(1) && result.output.contains("32 to 1024"), "\(result.output)")
        }
      }
    }

    /// A descriptor that is passed open was opened for this purpose.
    @Test func descriptorsArePassedWhateverTheirModes() throws {
      try Volume.with { volume in
        try volume.passcodeFile.setMode(0o644)
        try volume.shell("mkfifo -m 666 fifo", in: ".")
        for words in [
          "--passcode-file /dev/fd/3 3<passcode", "--passcode-fd 3 3<passcode", "--passcode-file - <passcode",
          "--passcode-file /dev/stdin <passcode", "--passcode-file <(cat passcode)",
          "--passcode-file fifo & cat passcode >fifo; wait $!",
        ] {
          try volume.lock()
          try volume.shell("'\(Command.path)' unlock mount \(words)", in: ".")
          #expect(try volume.status().state == .unlocked, "\(words)")
        }
      }
    }

    /// Each command that takes secrets checks all of them.
    @Test func newSecretsToo() throws {
      try Volume.store { volume in
        let exposed = volume.directory.appending("exposed")
        try exposed.write("a passcode that others know\n", mode: 0o644)
        let passcode = ["--passcode-file", volume.passcodeFile.description]
        let backup = volume.directory.appending("backup").description
        for words in [
          ["passcode", "change", "--new-passcode-file", exposed.description] + passcode,
          ["key", "add", "--new-passcode-file", exposed.description] + passcode,
          ["key", "test", "--passcode-file", exposed.description],
          ["keybag", "reset", "--yes", "--new-passcode-file", exposed.description],
          ["keybag", "export", "--backup", backup, "--backup-passcode-file", exposed.description] + passcode,
        ] {
          let result = try volume.command(words[0], Array(words.dropFirst()))
          #expect(result.ending == .exited(11), "\(words): \(result.output)")
        }
        let new = volume.directory.appending("new")
        let made = try Command.run(["init", new.description, "--passcode-file", exposed.description])
        #expect(made.ending == .exited(11), "\(made.output)")
      }
    }

    /// A service that gets a credential from systemd.
    @Test func credentials() throws {
      try Volume.store { volume in
        let credentials = volume.directory.appending("credentials")
        try credentials.makeDirectory(mode: 0o700)
        let file = credentials.appending("store").description
        let passcode = volume.passcodeFile.description
        #expect(try volume.command("key", ["add", "--new-key-file", file, "--passcode-file", passcode]).succeeded)
        try volume.mount()
        func unlock(_ name: String, _ environment: [String: String]) throws -> Program.Result {
          try Program.run(
            [Command.path, "unlock", volume.mountPoint.description, "--credential", name], environment: environment)
        }
        let there = ["CREDENTIALS_DIRECTORY": credentials.description]
        #expect(try unlock("store", [:]).ending == .exited(1))
        #expect(try unlock("../passcode", there).ending == .exited(1))
        #expect(try unlock("nothing", there).ending == .exited(1))
        #expect(try volume.status().state == .beforeFirstUnlock)
        #expect(try unlock("store", there).succeeded)
        #expect(try volume.status().state == .unlocked)
      }
    }

    /// Wrong passcodes are counted across daemons; a recovery key ends the delay.
    @Test func guessingIsDelayedAcrossDaemons() throws {
      try Volume.store { volume in
        for wrong in ["a", "b", "c"] {
          try volume.mount()
          let error = try #require(throws: ControlError.self) { try volume.unlock(wrong) }
          #expect(error.code == .wrongPasscode)
          volume.kill()
          try volume.mountPoint.unmount(isLazy: true)
        }
        try volume.mount()
        #expect(try #require(throws: ControlError.self) { try volume.unlock("d") }.code == .wrongPasscode)
        for passcode in ["e", Volume.passcode] {
          #expect(try #require(throws: ControlError.self) { try volume.unlock(passcode) }.code == .passcodeDelayed)
        }
        try volume.remount()
        let refused = try Command.run([
          "unlock", volume.mountPoint.description, "--passcode-file", volume.passcodeFile.description,
        ])
        #expect(refused.ending == .exited(20) && refused.output.contains("seconds"), "\(refused.output)")
        try volume.unlock(recoveryKey: volume.recoveryKey)
        try volume.lock()
        try volume.unlock(Volume.passcode)
      }
    }

    /// Unlock attempts on a store that cannot be written are limited too.
    @Test func guessingIsDelayedOnReadOnlyMounts() throws {
      try Volume.store { volume in
        try volume.mount(["-o", "ro,allow_other"])
        for wrong in ["a", "b", "c", "d"] {
          #expect(try #require(throws: ControlError.self) { try volume.unlock(wrong) }.code == .wrongPasscode)
        }
        #expect(try #require(throws: ControlError.self) { try volume.unlock(Volume.passcode) }.code == .passcodeDelayed)
      }
    }
  }
}

extension Volume {
  /// The same as ``command(_:on:)``, with the words after the first in a list.
  func command(_ first: String, _ words: [String]) throws -> Program.Result {
    let target = (isMounted ? mountPoint : backing).description
    return try Command.run([first] + words + ["--device-key", deviceKey.description, target])
  }
}
