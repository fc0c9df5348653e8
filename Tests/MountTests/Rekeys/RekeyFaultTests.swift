import CSystemCalls
import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// The daemon ends, or a call fails, at each step of a rekey: the file is intact.
  @Suite struct RekeyFaultTests {
    private static let contents = pattern(7, count: 70_000)
    private static let all: Faults.Kinds = [.changes, .synchronization]

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

    @Test func killedAnywhere() throws {
      try Volume.withFaults { volume, faults in
        for number in Faults.places {
          let file = try makeFile(volume, "\(number)")
          let (_, hit) = faults.during(.end, at: number, of: Self.all) { () throws(Errno) in
            try file.setProtectionClass(.complete)
            volume.awaitRekeyOrEnd()
          }
          guard let hit else {
            #expect(number > 8, "a rekey makes so few calls")
            break
          }
          try #require(volume.waitForDaemon() == .exited(FAULTS_STATUS))
          try volume.mountPoint.unmount(isLazy: true)
          try volume.mount()
          try volume.unlock(recoveryKey: volume.recoveryKey)
          try expectWhole(file, "killed after call \(number), \(hit)")
          try volume.waitForRekeys()
          try expectWhole(file, "killed after call \(number), \(hit), and finished")
          try file.unlink()
        }
      }
    }

    @Test(arguments: [Errno.ioError, .noSpace]) func eachCallFails(_ error: Errno) throws {
      try Volume.withFaults { volume, faults in
        for number in Faults.places {
          let file = try makeFile(volume, "\(number)")
          let (_, hit) = faults.during(.fail(error), at: number, of: Self.all) { () throws(Errno) in
            try file.setProtectionClass(.complete)
            volume.awaitRekeyOrEnd()
          }
          guard let hit else {
            #expect(number > 8, "a rekey makes so few calls")
            break
          }
          let place = "call \(number), \(hit), fails"
          try expectWhole(file, place)
          try volume.finishRekeys()
          try expectWhole(file, "\(place), and tried again")
          // What is written now is not undone by the rest of the batch.
          try OpenFile(file, O_WRONLY).write(Self.contents, at: 0)
          volume.kill()
          try volume.mountPoint.unmount(isLazy: true)
          try volume.mount()
          try volume.unlock(recoveryKey: volume.recoveryKey)
          try expectWhole(file, "\(place), and killed")
          try volume.waitForRekeys()
          try expectWhole(file, "\(place), and finished")
          try file.unlink()
        }
      }
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
