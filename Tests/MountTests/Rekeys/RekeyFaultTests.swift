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

    /// Before the next mount, a check reads what the journal makes of a file.
    @Test func aCheckReadsWhatIsPending() throws {
      try Volume.withFaults { volume, faults in
        let contents = pattern(3, count: 6 << 20)
        let secret = ["--recovery-key-file", try volume.recoveryKeyFile()]
        var pending = 0
        for number in 1...12 {
          let file = volume.path("\(number)")
          try file.write(contents)
          try OpenFile(file, O_RDWR).synchronize()
          let (_, _) = faults.during(.end, at: number, of: .changes) { () throws(Errno) in
            try file.rekey()
            volume.awaitRekeyOrEnd()
          }
          volume.kill()
          try? volume.mountPoint.unmount(isLazy: true)
          let checked = try volume.command("fsck", ["--contents", "--json"] + secret)
          #expect(checked.succeeded && !checked.output.contains("damaged\""), "\(number): \(checked.output)")
          if checked.output.contains("rekey-pending") { pending += 1 }
          try volume.mount()
          try volume.unlock(recoveryKey: volume.recoveryKey)
          try expectSame(file.contents(), contents, "ended at change \(number)")
          try volume.waitForRekeys()
        }
        #expect(pending > 3)
      }
    }
  }
}
