import ProtectfsIO
import SystemPackage
import Testing

extension MountTests {
  /// What `protectfs doctor` says of stores, and of what keeps a user from mounting.
  @Suite struct DoctorTests {
    private func doctor(_ environment: [String: String], _ options: [String] = []) throws -> Program.Result {
      try Program.run([Command.path, "doctor"] + options, environment: environment)
    }

    /// A recovery key, and when it was last seen to open its store.
    @Test func aRecoveryKeyAndWhenItWasTested() throws {
      try Volume.with { volume in
        let here = ["XDG_STATE_HOME": volume.directory.appending("state").description]
        let before = try doctor(here).output
        #expect(before.contains("\(volume.mountPoint): that of the store was never tested here"), "\(before)")
        #expect(before.contains("→ protectfs key test --recovery-key \(volume.mountPoint)\n"), "\(before)")
        let tested = try Program.run(
          [
            Command.path, "key", "test", "--recovery-key-file",
            volume.passcodeFile("recovery", volume.recoveryKey), volume.backing.description,
          ], environment: here)
        #expect(tested.succeeded, "\(tested.output)")
        let after = try doctor(here).output
        #expect(after.matches(of: /\ngood   recovery key  [^\n]*: tested on \d{4}-\d\d-\d\d\n/).count >= 1, "\(after)")
        #expect(!after.contains("\(volume.mountPoint): that of"), "\(after)")
        #expect(try doctor(here, ["--json"]).output.contains(#""subject" : "recovery key""#))

        // A store that has none is a fault.
        let removed = try Command.run([
          "key", "remove", "--passcode-file", volume.passcodeFile.description, volume.mountPoint.description,
          "recovery key",
        ])
        #expect(removed.succeeded, "\(removed.output)")
        let without = try doctor(here)
        #expect(without.ending == .exited(1))
        #expect(without.output.contains("fault  recovery key  \(volume.mountPoint) has none"), "\(without.output)")
      }
    }

    /// A note that cannot be made does not make a test fail.
    @Test func aTestThatCannotBeNoted() throws {
      try Volume.store { volume in
        let tested = try Program.run(
          [
            Command.path, "key", "test", "--recovery-key-file",
            volume.passcodeFile("recovery", volume.recoveryKey), volume.backing.description,
          ], environment: ["XDG_STATE_HOME": "/dev/null"])
        #expect(tested.succeeded && tested.output.contains("It opens the store"), "\(tested.output)")
        #expect(tested.output.contains("that it was tested is not noted"), "\(tested.output)")
      }
    }
  }
}
