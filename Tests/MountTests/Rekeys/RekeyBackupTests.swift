import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// Incremental backups of the backing directory, which compare length and modification time.
  @Suite(.enabled(if: Program.isInstalled("rsync"), "rsync is not installed")) struct RekeyBackupTests {
    /// Backups before a rekey, while it is pending, and afterwards. Each restores completely.
    @Test func increments() throws {
      try Volume.with { volume in
        let contents = pattern(1, count: 5 << 20)
        for name in ["long", "short"] {
          try volume.path(name).write(name == "long" ? contents : Array(contents[..<3000]))
          try volume.path(name).setTimes(seconds: 1_000_000_000)
        }
        try volume.backUp()
        for round in 0..<2 {
          for name in ["long", "short"] { try volume.path(name).rekey() }
          usleep([5000, 25_000][round])
          try volume.lock()
          try volume.remount()
          try volume.backUp()
          try volume.expectBackup(contents, "pending, round \(round)")
          try volume.unlock()
          try volume.waitForRekeys()
          // The kernel sends its time once more.
          try volume.path("short").setMode(0o600)
          try volume.remount()
          try volume.backUp()
          try volume.expectBackup(contents, "afterwards, round \(round)")
          try volume.unlock()
        }
      }
    }

    /// The time that a program sees moves by seconds, not to the current time.
    @Test func theTimeStaysAbout() throws {
      try Volume.with { volume in
        let file = volume.path("file")
        try file.write("contents")
        try file.setTimes(seconds: 1_000_000_000)
        try file.setProtectionClass(.complete)
        try volume.waitForRekeys()
        try volume.remount()
        let time = try Int(volume.shellOutput("stat -c %Y file").split(separator: "\n").first ?? "") ?? 0
        #expect((1_000_000_001...1_000_000_005).contains(time), "\(time)")
      }
    }
  }
}

extension Volume {
  fileprivate func backUp() throws {
    let result = try Program.run([
      "rsync", "-aX", "--delete", "\(backing)/", "\(directory.appending("backup"))/",
    ])
    try #require(result.succeeded, "\(result.output)")
  }

  /// Mounts a copy of the backup, and compares.
  fileprivate func expectBackup(_ contents: [UInt8], _ comment: String) throws {
    let copy = directory.appending("restored")
    _ = try Program.run(["rm", "-rf", copy.description])
    #expect(try Program.run(["cp", "-a", directory.appending("backup").description, copy.description]).succeeded)
    let mounted = try SecondMount(of: self, "restored mount", backing: copy, options: "ro")
    try mounted.unlock()
    try expectSame(mounted.path("long").contents(), contents, "\(comment)")
    try expectSame(mounted.path("short").contents(), Array(contents[..<3000]), "\(comment)")
    try mounted.end()
  }
}
