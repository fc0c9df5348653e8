import Cryptography
import Glibc
import ProtectfsClient
import ProtectfsIO
import StoreFormat
import SystemPackage
import TPM
import TestVectors
import Testing

@testable import KeyManagement

extension MountTests {
  /// A store whose keys are bound to a TPM, here a software TPM.
  @Suite(.enabled(if: SoftwareTPM.isInstalled, "swtpm is not installed")) struct TPMStoreTests {
    /// A passcode that involves the TPM opens the store only with this TPM, which counts wrong ones.
    @Test func aPasscodeWithTheTPM() throws {
      var machine = try SoftwareTPM()
      let here = ["PROTECTFS_TCTI": machine.tcti]
      try Volume.store(environment: { _ in here }) { volume in
        func run(_ words: [String]) throws -> Program.Result {
          try Program.run([Command.path] + words, environment: here)
        }
        try volume.mount()
        try volume.unlock(Volume.passcode)
        try volume.path("file").write("here")
        let other = try volume.passcodeFile("other", "a short one")
        let added = try run([
          "key", "add", "--new-passcode-file", other, "--tpm", "--passcode-file", volume.passcodeFile.description,
          volume.mountPoint.description,
        ])
        #expect(added.succeeded, "\(added.output)")
        try volume.lock()
        try volume.unlock("a short one")
        #expect(try volume.path("file").contents() == Array("here".utf8))
        // A wrong one is counted by the TPM too.
        try volume.lock()
        #expect(try #require(throws: ControlError.self) { try volume.unlock("wrong") }.code == .wrongPasscode)
        #expect(try TPM(tcti: machine.tcti).lockout().failures == 1)
        try volume.unlock("a short one")
        let changed = try run([
          "passcode", "change", "--passcode-file", other, "--new-passcode-file",
          volume.passcodeFile("new", "a newer one"),
          volume.mountPoint.description,
        ])
        #expect(changed.succeeded, "\(changed.output)")
        try volume.remount()
        #expect(throws: ControlError.self) { try volume.unlock("a short one") }
        try volume.unlock("a newer one")
        try volume.unlock(Volume.passcode)
        try volume.lock()

        // Without the TPM the other protectors still open the store, and the error says what is missing.
        machine.stop()
        let gone = try #require(throws: ControlError.self) { try volume.unlock("a newer one") }
        #expect(gone.code == .failed && gone.message.contains("no TPM can be used"), "\(gone.message)")
        try volume.unlock(Volume.passcode)
      }
    }

    /// The sealed device key opens the stores of this machine. A copy of the disk does not have it.
    @Test func theDeviceKeyInTheTPM() throws {
      let machine = try SoftwareTPM()
      let stranger = try SoftwareTPM()
      let directory = try TemporaryDirectory.make()
      defer { TemporaryDirectory.remove(directory) }
      let passcode = directory.appending("passcode")
      try passcode.write("a short one", mode: 0o600)
      let (backing, mountPoint) = (directory.appending("backing"), directory.appending("mount"))
      try mountPoint.makeDirectory()
      // Root's keys are in /etc, over which a directory of this test is mounted.
      let script = """
        mkdir -p "$0/etc" && mount --bind "$0/etc" /etc && shift 0 && "$@"; exit $?
        """
      func run(_ tpm: String, _ words: String...) throws -> Program.Result {
        try Program.run(
          ["unshare", "--mount", "sh", "-c", script, directory.description, Command.path] + words,
          environment: ["PROTECTFS_TCTI": tpm, "XDG_CONFIG_HOME": directory.description])
      }
      let made = try run(machine.tcti, "init", backing.description, "--passcode-file", passcode.description)
      #expect(made.succeeded, "\(made.output)")
      let keys = directory.appending("etc").appending("protectfs")
      let plain = try keys.appending("device.key").contents()
      let kept = try OpenFile(keys.appending("device.key"), O_RDONLY)
      // A store's part of the key, as kept by a mount with a recovery key.
      let store = try KeybagRecord(parsing: backing.appending(".protectfs/keybag").contents()).storeID
      let copy = keys.appending("\(store).key")
      try copy.write(VolumeDeviceKey(deviceKey: SecretBytes(plain), storeID: store).secret.exposed(), mode: 0o600)
      let sealed = try run(machine.tcti, "device-key", "seal", "--yes")
      #expect(sealed.succeeded, "\(sealed.output)")
      #expect(sealed.output.contains("/etc/protectfs/\(store).key"), "\(sealed.output)")
      try copy.unlink()
      #expect(try keys.names() == ["device.tpm"])
      #expect(try !keys.appending("device.tpm").contents().starts(with: plain))
      #expect(try kept.read(at: 0, count: 32).allSatisfy { $0 == 0 }, "it was overwritten before it was removed")

      let test = ["key", "test", "--passcode-file", passcode.description, backing.description]
      #expect(try run(machine.tcti, test[0], test[1], test[2], test[3], test[4]).succeeded)
      let elsewhere = try run(stranger.tcti, test[0], test[1], test[2], test[3], test[4])
      #expect(!elsewhere.succeeded && elsewhere.output.contains("TPM"), "\(elsewhere.output)")
    }
  }
}
