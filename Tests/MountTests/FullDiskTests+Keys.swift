import ProtectfsIO
import SystemPackage
import Testing

@testable import KeyManagement

// A full disk prevents neither the erasure of a store nor the count of wrong passcodes.
extension MountTests.FullDiskTests {
  @Test(arguments: [true, false], [true, false]) func erased(whileMounted: Bool, withInodes: Bool) throws {
    try withStore { volume, disk in
      try volume.path("file").write("gone")
      if !whileMounted { try volume.unmount() }
      try disk.fill(inodes: !withInodes)
      let erased = try volume.command("erase", ["--yes"])
      #expect(erased.succeeded, "\(erased.output)")
      if whileMounted {
        #expect(throws: keyRevoked) { try OpenFile(volume.path("file"), 0) }
        try volume.unmount()
      }
      let files = try volume.ownFiles()
      #expect(files["effaceable"]?.allSatisfy { $0 == 0 } == true)
      #expect(files["keybag"] != nil && files["keybag"] == files["keybag.previous"])
      let failure = try #require(throws: MountFailure.self) { try volume.mount() }
      #expect(failure.ending == .exited(21) && failure.output.contains("erased on"), "\(failure.output)")
    }
  }

  @Test(arguments: [true, false]) func wrongPasscodesAreCounted(withInodes: Bool) throws {
    try withStore(initOptions: ["--erase-after", "4"]) { volume, disk in
      try volume.unmount()
      try disk.fill(inodes: !withInodes)
      func test(_ passcode: String) throws -> Program.Ending? {
        let file = volume.directory.appending("tried")
        try file.write(passcode, mode: 0o600)
        return try volume.command("key", ["test", "--passcode-file", file.description]).ending
      }
      for passcode in ["a", "b"] { #expect(try test(passcode) == .exited(3)) }
      #expect(try count(volume) == 2)
      // The right passcode is accepted and resets the count.
      #expect(try test(Volume.passcode) == .exited(0))
      #expect(try count(volume) == 0)
      for (number, passcode) in ["a", "b", "c"].enumerated() {
        #expect(try test(passcode) == .exited(3))
        #expect(try count(volume) == UInt32(number + 1))
      }
      #expect(try test("d") == .exited(21))
      #expect(try test(Volume.passcode) == .exited(21))
    }
  }

  private func count(_ volume: Volume) throws -> UInt32 {
    let file = try volume.keybagFile()
    let deviceKey = try volume.volumeDeviceKey()
    return try file.attempts(Keybag(parsing: file.read(), deviceKey: deviceKey), deviceKey).count
  }
}
