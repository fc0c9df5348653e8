import CSystemCalls
import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// The daemon ends during a rekey while a program writes: the file is intact.
  @Suite struct RekeyFaultTests {
    private static let contents = pattern(7, count: 70_000)

    private func makeFile(_ volume: Volume, _ name: String) throws -> PathName {
      let file = volume.path(name)
      try file.write(Self.contents)
      try file.setExtendedAttribute("user.note", to: Array("a remark".utf8))
      return file
    }

    private func expectWhole(_ file: PathName, _ place: String) throws {
      try expectSame(file.contents(), Self.contents, place)
      #expect(try file.extendedAttribute("user.note") == Array("a remark".utf8), "\(place)")
    }

    /// What was synchronised after a rekey has advanced is not undone by the next mount.
    @Test func whatIsSynchronisedStays() throws {
      try Volume.withFaults { volume, faults in
        for number in 1...12 {
          let file = try makeFile(volume, "\(number)")
          let opened = try OpenFile(file, O_RDWR)
          let (_, _) = faults.during(.end, at: number, of: .synchronization) { () throws(Errno) in
            try file.setProtectionClass(.complete)
            for _ in 0..<20 {
              try opened.write(Self.contents, at: 0)
              try opened.synchronizeData()
            }
            volume.awaitRekeyOrEnd()
          }
          volume.kill()
          try? volume.mountPoint.unmount(isLazy: true)
          try volume.mount()
          try volume.unlock(recoveryKey: volume.recoveryKey)
          try expectWhole(file, "ended at synchronisation \(number)")
          try volume.waitForRekeys()
        }
      }
    }
  }
}
