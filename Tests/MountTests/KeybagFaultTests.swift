import CSystemCalls
import Cryptography
import Glibc
import KeyManagement
import ProtectfsClient
import ProtectfsIO
import StoreFormat
import SystemPackage
import Testing

extension MountTests {
  /// A change of passcode that is interrupted or fails: the keybag is old or new, and the caller is told which.
  @Suite struct KeybagFaultTests {
    private static let new = "a new passcode"

    @Test func everyInterruptionIsOldOrNew() throws {
      try withStore { volume, faults, change in
        var wasNew = false
        for number in Faults.places {
          let result = try change(.end, number)
          guard result.ending == .exited(FAULTS_STATUS) else {
            #expect(result.succeeded, "\(result.output)")
            break
          }
          let notes = try volume.notesOfCheck("after call \(number), \(faults.hit ?? "")")
          #expect(notes.isSubset(of: ["keybag-leftover", "keybag-previous-missing"]), "call \(number): \(notes)")
          let (old, new) = try state(of: volume)
          #expect(old != new, "after call \(number), \(faults.hit ?? ""): old \(old), new \(new)")
          #expect(new || !wasNew, "call \(number): it was new before")
          wasNew = new
        }
        #expect(wasNew)
      }
    }

    /// The command, on a store that is not mounted.
    @Test func theCommandTellsWhatIsTrue() throws {
      let error = Errno.ioError
      try withStore { volume, faults, change in
        for number in Faults.places {
          let result = try change(.fail(error), number)
          guard let hit = faults.hit else { break }
          let place = "\(hit), call \(number)"
          let (old, new) = try state(of: volume)
          if result.succeeded {
            // Only the cleanup failed.
            #expect(new && !old, "\(place)")
          } else {
            #expect(result.output.contains("\(error)"), "\(place): \(result.output)")
            let isChanged = result.output.contains("was changed")
            #expect(new == isChanged && old != isChanged, "\(place): old \(old), new \(new): \(result.output)")
          }
        }
      }
    }

    /// The daemon accepts the passcode that is on disk.
    @Test func theDaemonGoesOnWithWhatIsOnDisk() throws {
      try Volume.withFaults { volume, faults in
        var passcodes = [Volume.passcode, Self.new]
        for number in Faults.places {
          let (error, hit) = change(volume, passcodes, faults, at: number)
          guard let hit else {
            #expect(error == nil)
            break
          }
          let place = "\(hit), call \(number): \(error?.message ?? "no error")"
          if error == nil || error!.message.contains("was changed") { passcodes.reverse() }
          #expect(throws: Never.self, "\(place)") { try volume.unlock(passcodes[0]) }
          #expect(throws: ControlError.self, "\(place)") { try volume.unlock(passcodes[1]) }
        }
        try volume.remount()
        try volume.unlock(passcodes[1])
      }
    }

    /// A mount of a store in which nothing is to be repaired synchronises nothing for that.
    @Test func whatIsWholeIsLeftAlone() throws {
      try Volume.withFaults { volume, faults in
        try volume.unmount()
        let before = try volume.backing.appending(".protectfs/effaceable").status()
        faults.arm(.failOn(.ioError), at: 1, of: .flushes)
        defer { faults.disarm() }
        try volume.mount()
        #expect(faults.hit == nil && !volume.log.contains("not finished"), "\(volume.log)")
        let after = try volume.backing.appending(".protectfs/effaceable").status()
        #expect(after.modification_seconds == before.modification_seconds)
        #expect(after.modification_nanoseconds == before.modification_nanoseconds)
      }
    }

    private func change(
      _ volume: Volume, _ passcodes: [String], _ faults: Faults, at number: Int
    ) -> (ControlError?, hit: String?) {
      faults.arm(.fail(.ioError), at: number, of: .changes)
      defer { faults.disarm() }
      let (old, new) = (Array(passcodes[0].utf8), Array(passcodes[1].utf8))
      do throws(ControlError) {
        var connection = try volume.connection()
        try unsafe old.withBytes { (old) throws(ControlError) in
          try unsafe new.withBytes { (new) throws(ControlError) in
            try unsafe connection.changePasscode(from: .passcode(old), to: new)
          }
        }
        return (nil, faults.hit)
      } catch {
        return (error, faults.hit)
      }
    }

    private typealias Change = (Faults.Action, Int) throws -> Program.Result

    /// A store whose passcode is changed by a command with faults, each time from the same keybag.
    private func withStore(_ body: (Volume, Faults, Change) throws -> Void) throws {
      try Volume.store { volume in
        let faults = try Faults(of: volume)
        let new = volume.directory.appending("new")
        try new.write(Self.new, mode: 0o600)
        let store = volume.backing.appending(".protectfs")
        let keybag = try store.appending("keybag").contents()
        let effaceable = try store.appending("effaceable").contents()
        try volume.directory.appending("saved").write(keybag)
        try body(volume, faults) { action, number in
          for name in try store.names() { try store.appending(bytes: Array(name.bytes)).unlink() }
          for name in ["keybag", "keybag.previous"] { try store.appending(name).write(keybag, mode: 0o600) }
          try store.appending("effaceable").write(effaceable, mode: 0o600)
          faults.arm(action, at: number, of: .changes)
          defer { faults.disarm() }
          return try Program.run(
            [
              Command.path, "passcode", "change", "--passcode-file", volume.passcodeFile.description,
              "--new-passcode-file", new.description, "--device-key", volume.deviceKey.description,
              volume.backing.description,
            ], environment: faults.environment)
        }
      }
    }

    /// Whether the old passcode opens the store with all class keys, and whether the new one does. The old keybag opens
    /// with its passcode as long as it opens with its recovery key, which needs no scrypt.
    private func state(of volume: Volume) throws -> (old: Bool, new: Bool) {
      let isSaved = try volume.keybagFile().read() == volume.directory.appending("saved").contents()
      return (isSaved && volume.refusal(of: nil) == nil, !isSaved && volume.refusal(of: Self.new) == nil)
    }
  }
}
