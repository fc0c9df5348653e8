import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests.FullDiskTests {
  /// It stops, says why, keeps what it has, and continues when there is room.
  @Test func aRestoreGoesOnWhenThereIsRoom() throws {
    try withStore { volume, _ in
      let source = volume.directory.appending("source")
      try source.makeDirectory()
      for number in 0..<9 { try source.appending("\(number)").write(pattern(number, count: 700_000 + number)) }
      try volume.path("ballast").write(pattern(0, count: 4 << 20))
      let result = try volume.restore(from: source)
      #expect(result.ending == .exited(1) && result.output.contains("no room left"), "\(result.output)")
      let kept = try volume.mountPoint.names().map(\.description).filter { $0 != "ballast" && $0 != "lost+found" }
      #expect(!kept.isEmpty && kept.count < 9 && !kept.contains { $0.hasPrefix(".") }, "\(kept)")
      for name in kept {
        #expect(try volume.path(name).contents() == source.appending(name).contents(), "\(name)")
      }
      try volume.path("ballast").unlink()
      let again = try volume.restore(from: source)
      #expect(again.succeeded && again.output.contains("\(kept.count) there already"), "\(again.output)")
      for number in 0..<9 {
        #expect(try volume.path("\(number)").contents() == pattern(number, count: 700_000 + number))
      }
    }
  }

  /// A file is rekeyed in place, with room only for its batches.
  @Test func aRotationNeedsNoRoomForACopy() throws {
    try withStore { volume, _ in
      let contents = pattern(1, count: 5 << 20)
      try volume.path("file").write(contents)
      let result = try Command.run(["rotate", "--data", volume.path("file").description])
      #expect(result.succeeded, "\(result.output)")
      try expectSame(volume.path("file").contents(), contents)
    }
  }

  /// Without room for the batches, the file stays unchanged. With some room, the rekey continues.
  @Test func aRekeyWithoutRoomWaits() throws {
    try withStore { volume, _ in
      let contents = pattern(1, count: 1 << 20)
      try volume.path("file").write(contents)
      do {
        let ballast = try OpenFile(volume.path("ballast"), O_CREAT | O_RDWR | OpenFile.direct)
        for size in [65_536, 4096] {
          while failure(of: { () throws(Errno) in try ballast.append(pattern(2, count: size)) }) == nil {}
        }
      }
      let result = try Command.run(["rotate", "--data", volume.path("file").description])
      #expect(!result.succeeded, "\(result.output)")
      try expectSame(volume.path("file").contents(), contents)
      try volume.path("ballast").unlink()
      let again = try Command.run(["rotate", "--data", volume.path("file").description])
      if !again.succeeded {
        try volume.unlock()
        try volume.waitForRekeys()
      }
      try expectSame(volume.path("file").contents(), contents)
      #expect(try !volume.path("file").isRekeyPending())
    }
  }
}
