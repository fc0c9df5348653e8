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
  /// A change of passcode that fails: the daemon goes on with what is on disk. What is there is tried on a simulated
  /// disk.
  @Suite struct KeybagFaultTests {
    private static let new = "a new passcode"

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
  }
}
