import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension Volume {
  /// Tries to mount, and returns the exit status and the output.
  func refusedMount(
    _ options: [String] = [], sourceLocation: SourceLocation = #_sourceLocation
  ) throws -> (status: CInt, output: String) {
    let failure = try #require(throws: MountFailure.self, sourceLocation: sourceLocation) { try mount(options) }
    guard case .exited(let status) = failure.ending else {
      Issue.record("\(failure)", sourceLocation: sourceLocation)
      return (-1, failure.output)
    }
    return (status, failure.output)
  }
}

extension MountTests {
  /// Stores that cannot be mounted: each refusal says what is wrong and what to do, and nothing is lost.
  @Suite struct BadStoreTests {
    @Test func aWrongPasscodeChangesNothing() throws {
      try Volume.with(unlocked: false) { volume in
        for wrong in [
          "wrong", Volume.passcode + " ", Volume.passcode.uppercased(), String(repeating: "x", count: 1024),
        ] {
          let error = try #require(throws: ControlError.self) { try volume.unlock(wrong) }
          #expect(error.code == .wrongPasscode)
          #expect(error.message == "the passcode is wrong")
          #expect(try volume.status().state == .beforeFirstUnlock)
        }
        // After the fourth, no attempt is made for a minute, not even with the right passcode; a recovery key is
        // accepted.
        let delayed = try #require(throws: ControlError.self) { try volume.unlock(Volume.passcode) }
        #expect(delayed.code == .passcodeDelayed)
        try volume.unlock(recoveryKey: volume.recoveryKey)
        try volume.lock()
        try volume.unlock(Volume.passcode)
        #expect(throws: ControlError.self) { try volume.unlock("wrong") }
        #expect(try volume.status().state == .unlocked)
        try volume.lock()
        #expect(throws: ControlError.self) { try volume.unlock("wrong") }
        #expect(try volume.status().state == .locked)
        try volume.unlock(Volume.passcode)
        // A wrong one does not cancel an announced lock.
        try volume.announceLock(gracePeriod: .seconds(600))
        #expect(throws: ControlError.self) { try volume.unlock("wrong") }
        #expect(try volume.status().state == .gracePeriod)
      }
    }

    @Test func theCommandTellsAWrongPasscode() throws {
      try Volume.with(unlocked: false) { volume in
        try volume.directory.appending("wrong").write("nonsense\n", mode: 0o600)
        let result = try Command.run([
          "unlock", volume.mountPoint.description, "--passcode-file", volume.directory.appending("wrong").description,
        ])
        #expect(result.ending == .exited(3), "\(result.output)")
        #expect(result.output.contains("passcode is wrong"))
      }
    }

    @Test func missingAndForeignDeviceKeys() throws {
      try Volume.store { volume in
        let kept = volume.directory.appending("kept")
        try volume.deviceKey.rename(to: kept)
        let missing = try volume.refusedMount()
        #expect(missing.status == 9)
        #expect(missing.output.contains(volume.deviceKey.description) && missing.output.contains("recovery key"))

        try volume.deviceKey.write([UInt8](repeating: 7, count: 32), mode: 0o600)
        let foreign = try volume.refusedMount()
        #expect(foreign.status == 10)
        #expect(foreign.output.contains("recovery key"))

        for (name, bytes) in [("short", 31), ("long", 33), ("empty", 0)] {
          try volume.deviceKey.write([UInt8](repeating: 7, count: bytes), mode: 0o600)
          #expect(try volume.refusedMount().status == 9, "\(name)")
        }
        try volume.deviceKey.unlink()
        try kept.rename(to: volume.deviceKey)
        try volume.deviceKey.setMode(0o644)
        let exposed = try volume.refusedMount()
        #expect(exposed.status == 9 && exposed.output.contains("0600"))
        try volume.deviceKey.setMode(0o600)
        try volume.mount()
      }
    }

    @Test func damagedKeybags() throws {
      try Volume.store { volume in
        let keybag = volume.backing.appending(".protectfs/keybag")
        let good = try keybag.contents()
        // Cut off at any place.
        for count in [0, 7, 8, 10, 40, good.count / 2, good.count - 1] {
          try keybag.write(Array(good[..<count]))
          let refused = try volume.refusedMount()
          #expect(refused.status == 8, "\(count) bytes: \(refused.output)")
          #expect(refused.output.contains("keybag.previous"), "\(refused.output)")
        }
        // Cut off inside a field, which the error names.
        try keybag.write(Array(good[..<20]))
        #expect(try volume.refusedMount().output.contains("store ID"))
        try keybag.write(Array(good[..<(good.count - 1)]))
        #expect(try volume.refusedMount().output.contains("tag"))
        // A changed bit is found anywhere.
        for index in stride(from: 18, to: good.count, by: 61) {
          var changed = good
          changed[index] ^= 1
          try keybag.write(changed)
          #expect([8, 10].contains(try volume.refusedMount().status), "byte \(index)")
        }
        try keybag.write(good + [0])
        #expect(try volume.refusedMount().status == 8)

        var newer = good
        let sentences: [UInt8: String] = [3: "needs a newer protectfs", 1: "copy its files out with the version that"]
        for (number, sentence) in sentences {
          newer[8] = number
          try keybag.write(newer)
          let version = try volume.refusedMount()
          #expect(version.status == 17 && version.output.contains(sentence), "\(version.output)")
        }
        var features = good
        features[17] = 1
        try keybag.write(features)
        #expect(try volume.refusedMount().status == 17)

        try keybag.unlink()
        #expect(try volume.refusedMount().status == 4)
        // The previous keybag is never used automatically.
        try volume.backing.appending(".protectfs/keybag.previous").write(good)
        #expect(try volume.refusedMount().status == 4)
        try keybag.write(good)
        try volume.mount()
      }
    }

    @Test func placesWhereNothingCanBeMounted() throws {
      try Volume.store { volume in
        let (backing, mountPoint) = (volume.backing.description, volume.mountPoint.description)
        func mount(_ backing: String, _ mountPoint: String) throws -> Program.Result {
          try Command.run(["mount", backing, mountPoint, "-f", "--device-key", volume.deviceKey.description])
        }
        let noStore = volume.directory.appending("no store")
        try noStore.makeDirectory()
        let none = try mount(noStore.description, mountPoint)
        #expect(none.ending == .exited(4) && none.output.contains("protectfs init"), "\(none.output)")
        #expect(try mount("/nonexistent", mountPoint).ending != .exited(0))
        #expect(try mount(volume.deviceKey.description, mountPoint).ending == .exited(4))
        #expect(try mount(backing, "/nonexistent").ending == .exited(14))
        #expect(try mount(backing, volume.deviceKey.description).ending == .exited(14))

        try volume.mountPoint.appending("something").write("x")
        let notEmpty = try mount(backing, mountPoint)
        #expect(notEmpty.ending == .exited(14) && notEmpty.output.contains("not empty"), "\(notEmpty.output)")
        try volume.mountPoint.appending("something").unlink()

        let inside = volume.backing.appending("inside")
        try inside.makeDirectory()
        let insideResult = try mount(backing, inside.description)
        #expect(insideResult.ending == .exited(14) && insideResult.output.contains("inside"), "\(insideResult.output)")
        #expect(try mount(backing, backing).ending == .exited(14))
        #expect(try mount(backing, volume.directory.description).ending == .exited(14))
        try inside.removeDirectory()

        try volume.mount()
        let other = volume.directory.appending("other")
        try other.makeDirectory()
        let twice = try mount(backing, other.description)
        #expect(twice.ending == .exited(7) && twice.output.contains(mountPoint), "\(twice.output)")
        #expect(try mount(backing, mountPoint).ending == .exited(7))
        try volume.unlock()
        #expect(!volume.log.contains("error"), "\(volume.log)")
      }
    }

    @Test func storesAreNotMadeOverAnything() throws {
      try Volume.store { volume in
        func make(_ path: PathName, _ options: [String] = []) throws -> Program.Result {
          try Command.run(
            [
              "init", path.description, "--passcode-file", volume.passcodeFile.description, "--device-key",
              volume.deviceKey.description,
            ] + options)
        }
        #expect(try make(volume.backing).ending == .exited(5))
        #expect(try make(volume.directory).ending == .exited(5))
        let new = volume.directory.appending("new")
        #expect(try make(new, ["--default-class", "none"]).ending == .exited(64))
        #expect(try make(new, ["--default-class", "X"]).ending == .exited(64))
        try volume.directory.appending("empty").write("", mode: 0o600)
        #expect(
          try Command.run(["init", new.description, "--passcode-file", volume.directory.appending("empty").description])
            .ending != .exited(0))
        try volume.mount()
        try volume.unlock()
      }
    }
  }
}
