import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// Files restored from copies.
  @Suite(.enabled(if: Program.isInstalled("rsync"), "rsync is not installed")) struct RestoreTests {
    @Test func everythingFromPlaintext() throws {
      try Volume.with { volume in
        let source = try SourceTree(beside: volume)
        let dry = try volume.restore(from: source.path, ["--dry-run"])
        #expect(dry.succeeded && dry.output.contains("copy\td/e/1\n"), "\(dry.output)")
        #expect(try volume.mountPoint.names().isEmpty)
        let result = try volume.restore(from: source.path)
        #expect(result.succeeded, "\(result.output)")
        try source.expectRestored()
        #expect(try volume.path("holes").status().blocks * 512 < 1 << 20, "holes are kept")
        let again = try volume.restore(from: source.path, ["--json"])
        #expect(again.succeeded && again.output.contains(#""copied":0,"#), "\(again.output)")
        #expect(again.output.contains(#""isComplete":true"#) && again.output.contains(#""replaced":0"#))
        try volume.remount()
        try volume.unlock()
        try source.expectRestored("after mounting again")
        try volume.unmount()
        #expect(try volume.notesOfCheck("after a restore").isEmpty)
      }
    }

    /// A copy may be all that is left of what its original has lost.
    @Test func wrongPasscodesDoNotEraseTheSource() throws {
      try Volume.store(initOptions: ["--erase-after", "4"]) { volume in
        try volume.mount()
        try volume.unlock()
        try volume.path("file").write("contents")
        try volume.unmount()
        let copy = volume.directory.appending("copy")
        try #require(try Program.run(["cp", "-a", volume.backing.description, copy.description]).succeeded)
        try volume.mount()
        try volume.unlock()
        try volume.path("file").unlink()
        for number in 1...4 {
          let wrong = try volume.passcodeFile("wrong", "wrong passcode \(number)")
          let refused = try volume.restore(
            from: copy, ["--device-key", volume.deviceKey.description, "--passcode-file", wrong])
          #expect(refused.output.contains("the passcode is wrong"), "\(refused.output)")
        }
        let restored = try volume.restore(from: copy, ["--recovery-key-file", volume.recoveryKeyFile()])
        #expect(restored.succeeded, "\(restored.output)")
        #expect(try volume.path("file").text() == "contents")
      }
    }

    @Test func orphansFromPlaintextAndFromAStore() throws {
      try Volume.store { volume in
        try volume.mount()
        try volume.unlock()
        let source = try SourceTree(beside: volume)
        #expect(try volume.restore(from: source.path).succeeded)
        try volume.path("file").setProtectionClass(.complete)
        try volume.path("random").setProtectionClass(.completeUnlessOpen)
        try volume.path("d/e/3").setProtectionClass(.none)
        try volume.path("d").setProtectionClass(.completeWhenUserInactive)
        let before = try Snapshot(of: volume.mountPoint)
        try volume.unmount()
        let copy = volume.directory.appending("copy")
        try #require(try Program.run(["cp", "-a", volume.backing.description, copy.description]).succeeded)
        for (from, options) in [(source.path, []), (copy, volume.openingOptions)] {
          try volume.reset()
          #expect(try volume.path("d/e/3").contents() == Array("3\n".utf8), "class D stays")
          #expect(throws: Errno(rawValue: EKEYREVOKED)) { try volume.path("file").contents() }
          let result = try volume.restore(from: from, options)
          #expect(result.succeeded, "\(from): \(result.output)")
          let after = try Snapshot(of: volume.mountPoint)
          #expect(after == before, "\(from): \(after.difference(to: before))")
          #expect(try Command.run(["orphans", "list", volume.mountPoint.description]).output.isEmpty)
          try volume.unmount()
          #expect(try volume.notesOfCheck("after a restore").isEmpty)
        }
        expectNoTrace(of: copy, volume)
      }
    }

    /// What a class was inherited from may be another directory's here.
    @Test func noClassIsWeakened() throws {
      try Volume.with { volume in
        let (root, list) = (volume.mountPoint, ["file", "d", "d/file", "e/file", "f"])
        try root.setProtectionClass(.complete)
        for name in ["d", "e"] { try volume.path(name).makeDirectory() }
        for name in ["file", "d/file", "e/file", "f"] { try volume.path(name).write("x") }
        try volume.path("f").setProtectionClass(.none)
        try volume.unmount()
        let copy = volume.directory.appending("copy")
        try #require(try Program.run(["cp", "-a", volume.backing.description, copy.description]).succeeded)
        try volume.mount()
        try volume.unlock()
        try volume.shell("rm -r *")
        try root.setProtectionClass(.completeUntilFirstUserAuthentication)
        try volume.path("e").makeDirectory()
        let result = try volume.restore(from: copy, volume.openingOptions)
        #expect(result.ending == .exited(15), "\(result.output)")
        for name in [".", "e"] {
          #expect(result.output.contains("\(name) was there, in a class that protects less"), "\(result.output)")
        }
        let letters = try list.map { try volume.path($0).protectionClass().letter }
        #expect(letters == ["A", "A", "A", "A", "D"])
        let chosen = try list.map { try volume.path($0).attributeNames().contains("user.protectfs.class") }
        #expect(chosen == [false, false, false, false, true])
        for path in [root, volume.path("e")] { try path.setProtectionClass(.complete) }
        let again = try volume.restore(from: copy, volume.openingOptions)
        #expect(again.succeeded, "\(again.output)")
        // What is there in a class that it has inherited here, and what is made anew.
        for path in [root, volume.path("e")] { try path.setProtectionClass(.completeUnlessOpen) }
        let times = try volume.path("e/file").status()
        try volume.path("e/file").unlink()
        try volume.path("e/file").write("x")
        try volume.path("e/file").setTimes(
          seconds: times.modification_seconds, nanoseconds: Int64(times.modification_nanoseconds))
        try volume.path("file").unlink()
        let found = try volume.restore(from: copy, volume.openingOptions)
        #expect(found.output.contains("e/file was there, in a class that protects less"), "\(found.output)")
        #expect(try volume.path("file").protectionClass() == .complete)
        try volume.path("e/file").write("other")
        let replaced = try volume.restore(from: copy, ["--overwrite"] + volume.openingOptions)
        #expect(!replaced.output.contains("e/file"), "\(replaced.output)")
        #expect(try volume.path("e/file").protectionClass() == .complete)
      }
    }

    @Test func whatIsDifferentIsLeftAlone() throws {
      try Volume.with { volume in
        let source = try SourceTree(beside: volume)
        #expect(try volume.restore(from: source.path).succeeded)
        try volume.path("file").write("mine")
        try volume.path("link").unlink()
        try volume.path("link").makeSymbolicLink(to: "elsewhere")
        let result = try volume.restore(from: source.path)
        #expect(result.ending == .exited(15) && result.output.contains("file is there and different"))
        #expect(try volume.path("file").contents() == Array("mine".utf8))
        #expect(try volume.path("link").symbolicLinkTarget() == Array("elsewhere".utf8))
        let replacing = try volume.restore(from: source.path, ["--overwrite"])
        #expect(replacing.succeeded, "\(replacing.output)")
        try source.expectRestored()
      }
    }

    /// A link in the target must not lead the restore out of it.
    @Test func linksInTheTargetAreNotFollowed() throws {
      try Volume.with { volume in
        let (source, outside) = (volume.directory.appending("s"), volume.directory.appending("outside"))
        for directory in [source, source.appending("d"), outside] { try directory.makeDirectory() }
        try source.appending("d/file").write("x")
        try volume.path("d").makeSymbolicLink(to: outside)
        for options in [[], ["--overwrite"]] {
          #expect(try volume.restore(from: source, options).ending == .exited(15))
          #expect(try outside.names().isEmpty)
        }
      }
    }

    @Test(.enabled(if: Program.isInstalled("setpriv"), "setpriv is not installed"))
    func anUnreadableFileIsTold() throws {
      try Volume.with { volume in
        let source = try SourceTree(beside: volume)
        for path in [volume.mountPoint, source.path] { try path.setMode(0o777) }
        try source.path.appending("random").setMode(0o600)
        let result = try Program.run([
          "setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", Command.path, "restore", "--from",
          source.path.description, volume.mountPoint.description,
        ])
        #expect(result.ending == .exited(15) && result.output.contains("random cannot be read"), "\(result.output)")
        #expect(try volume.path("file").contents() == Array("hello".utf8))
        #expect(try volume.path("d/e/3").contents() == Array("3\n".utf8))
        #expect(!volume.path("random").exists && !volume.path(".random.protectfs-new").exists)
      }
    }

    /// A store is read where it is: no other mount is made, and nothing is left of what did not get to its end.
    @Test func aStoreIsNotMounted() throws {
      try Volume.store { volume in
        try volume.mount()
        try volume.unlock()
        try volume.shell("for i in $(seq 40); do head -c 4000000 /dev/urandom > $i; done")
        try volume.unmount()
        let copy = volume.directory.appending("copy")
        try #require(try Program.run(["cp", "-a", volume.backing.description, copy.description]).succeeded)
        try volume.reset()
        try volume.directory.appending("wrong").write("wrong", mode: 0o600)
        let wrong = try volume.restore(
          from: copy,
          ["--passcode-file", "\(volume.directory)/wrong", "--device-key", volume.deviceKey.description])
        #expect(wrong.ending == .exited(3), "\(wrong.output)")
        let foreign = try volume.restore(from: copy, ["--passcode-file", volume.passcodeFile.description])
        #expect(foreign.ending == .exited(10) || foreign.ending == .exited(9), "\(foreign.ending): \(foreign.output)")
        for signal in [SIGTERM, SIGINT, SIGKILL] {
          let program = try Program(
            [Command.path, "restore", "--from", copy.description, volume.mountPoint.description]
              + volume.openingOptions, environment: volume.temporaryDirectory,
            output: volume.directory.appending("output"))
          let before = try volume.copies().count
          let deadline = ContinuousClock.now + patience
          while try volume.copies().count <= before {
            try #require(ContinuousClock.now < deadline, "\(program.output)")
            usleep(5000)
          }
          expectNoTrace(of: copy, volume)
          program.send(signal)
          #expect(program.wait() == (signal == SIGKILL ? .killed(SIGKILL) : .exited(22)), "\(program.output)")
          expectNoTrace(of: copy, volume)
          if signal != SIGKILL { #expect(try volume.copies().isEmpty) }
        }
        let result = try volume.restore(from: copy, volume.openingOptions)
        #expect(result.succeeded, "\(result.output)")
        #expect(try volume.copies().isEmpty)
      }
    }

    /// Modes of the source say what is read of it, and stay as they are.
    @Test(.enabled(if: Program.isInstalled("setpriv"), "setpriv is not installed"))
    func aStoreIsReadAsItsModesAllow() throws {
      try Volume.with { volume in
        for name in ["open", "closed"] { try volume.path(name).write(name) }
        try volume.path("closed").setMode(0)
        try volume.unmount()
        let copy = volume.directory.appending("copy")
        try #require(try Program.run(["cp", "-a", volume.backing.description, copy.description]).succeeded)
        try #require(try Program.run(["chown", "-R", "1000:1000", copy.description]).succeeded)
        for path in [volume.passcodeFile, volume.deviceKey] {
          try #require(try Program.run(["cp", path.description, "\(path).1000"]).succeeded)
          try #require(try Program.run(["chown", "1000", "\(path).1000"]).succeeded)
        }
        try volume.directory.setMode(0o755)
        try volume.mount()
        try volume.unlock()
        try volume.path("target").makeDirectory()
        for path in [volume.mountPoint, volume.path("target")] { try path.setMode(0o777) }
        let result = try Program.run(
          [
            "setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", Command.path, "restore", "--from",
            copy.description, volume.path("target").description,
          ]
            + volume.openingOptions.map {
              [volume.passcodeFile.description, volume.deviceKey.description].contains($0) ? "\($0).1000" : $0
            })
        #expect(result.ending == .exited(15) && result.output.contains("closed cannot be read"), "\(result.output)")
        #expect(try volume.path("target/open").contents() == Array("open".utf8))
        #expect(!volume.path("target/closed").exists)
        let modes = try Program.run(["find", copy.description, "-type", "f", "-perm", "0"]).output
        #expect(modes.split(separator: "\n").count == 1, "\(modes)")
      }
    }

    // MARK: What there is to work with

    private func expectNoTrace(of backing: PathName, _ volume: Volume) {
      #expect(!MountedFileSystem.all().contains { $0.backing == backing.description })
      let left = try? volume.directory.names().filter { $0.description.hasPrefix("protectfs-restore.") }
      #expect(left?.isEmpty == true, "\(left ?? [])")
    }
  }
}

extension Volume {
  /// What is being copied.
  fileprivate func copies() throws -> [PathName] {
    try mountPoint.names().filter { $0.description.hasSuffix(".protectfs-new") }
  }

  /// Gives the unmounted store new keys and the old passcode, then mounts and unlocks it.
  fileprivate func reset() throws {
    let result = try Command.run([
      "keybag", "reset", "--yes", "--new-passcode-file", passcodeFile.description, "--device-key",
      deviceKey.description, backing.description,
    ])
    try #require(result.succeeded, "\(result.output)")
    try mount()
    try unlock(Self.passcode)
  }
}
