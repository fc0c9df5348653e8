import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// What other programs do to a file during a rekey, and at its end.
  @Suite struct RekeyRaceTests {
    private static let capability: PathName = "security.capability"
    /// CAP_NET_BIND_SERVICE, permitted: struct vfs_cap_data in linux/capability.h.
    private static let bindService: [UInt8] =
      [0, 0, 0, 2, 0, 4, 0, 0] + [UInt8](repeating: 0, count: 12)

    private func makeFiles(_ volume: Volume, _ names: [String]) throws -> [PathName] {
      try names.map { name in
        let file = volume.path(name)
        try file.write(pattern(3, count: 9000))
        return file
      }
    }

    /// A write removes privileges. Those of a rekey restore them, and only what was there.
    @Test(.enabled(if: geteuid() == 0, "only root gives capabilities")) func privilegesStay() throws {
      try Volume.with { volume in
        let files = try makeFiles(volume, (0..<16).map { "file \($0)" })
        for turn in 0..<12 {
          for file in files { try file.rekey() }
          for (number, file) in files.enumerated() where number % 4 != turn % 4 {
            try file.setMode((turn + number) % 2 == 0 ? 0o6755 : 0o755)
            try file.setExtendedAttribute(Self.capability, to: Self.bindService)
          }
          try volume.waitForRekeys()
          for (number, file) in files.enumerated() where number % 4 != turn % 4 {
            #expect(try file.status().mode & 0o7777 == ((turn + number) % 2 == 0 ? 0o6755 : 0o755), "turn \(turn)")
            #expect(try file.extendedAttribute(Self.capability) == Self.bindService, "turn \(turn)")
          }
        }
      }
    }

    /// A rekey that is requested while another ends is not forgotten.
    @Test func oneAfterTheOther() throws {
      try Volume.with { volume in
        let files = try makeFiles(volume, (0..<8).map { "file \($0)" })
        for turn in 0..<60 {
          for file in files {
            try file.setProtectionClass(turn % 2 == 0 ? .complete : .completeUntilFirstUserAuthentication)
            if turn % 3 == 0 { try file.rekey() }
          }
        }
        try volume.finishRekeys()
        for file in files {
          #expect(try !file.isRekeyPending())
          try expectSame(file.contents(), pattern(3, count: 9000))
        }
      }
    }

    /// A file whose directory was moved meanwhile is found again.
    @Test func directoriesMove() throws {
      try Volume.with { volume in
        for name in ["one", "one/two"] { try volume.path(name).makeDirectory() }
        let names = (0..<40).map { "file \($0)" }
        for turn in 0..<10 {
          let (from, to) = turn % 2 == 0 ? ("one", "other") : ("other", "one")
          if turn == 0 { _ = try makeFiles(volume, names.map { "one/two/\($0)" }) }
          for name in names { try volume.path("\(from)/two/\(name)").rekey() }
          try volume.path(from).rename(to: volume.path(to))
        }
        try volume.finishRekeys()
        for name in names {
          let file = volume.path("one/two/\(name)")
          #expect(try !file.isRekeyPending())
          try expectSame(file.contents(), pattern(3, count: 9000))
        }
      }
    }

    /// Locks come at any moment. The rest is done after an unlock, and no key is installed again during a lock.
    @Test func locksComeBetween() throws {
      try Volume.with { volume in
        let files = try makeFiles(volume, (0..<8).map { "file \($0)" })
        for file in files { try file.setProtectionClass(.complete) }
        for turn in 0..<25 {
          for file in files { try file.rekey() }
          usleep(UInt32(turn * 400))
          try volume.lock()
          for file in files { #expect(throws: Errno.permissionDenied) { try file.contents() } }
          try volume.unlock(recoveryKey: volume.recoveryKey)
        }
        try volume.finishRekeys()
        for file in files {
          #expect(try !file.isRekeyPending())
          try expectSame(file.contents(), pattern(3, count: 9000))
        }
      }
    }
  }
}
