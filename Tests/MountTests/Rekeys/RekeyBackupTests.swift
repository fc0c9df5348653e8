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

    /// Files that are made anew with the time and length of those before, as when an archive is unpacked again. The key
    /// is another, and so is the backing file's time: the backup takes contents and record together.
    @Test func filesMadeAnew() throws {
      try Volume.with { try Self.expectBackupsOfFilesMadeAnew($0) }
    }

    /// FUSE does not say when a file was made; nor do other file systems, such as F2FS by default.
    @Test func filesMadeAnewWithoutBirthTimes() throws {
      try Volume.onHosts(others: 0) { (volume, _, _) in
        try volume.mount()
        try volume.unlock()
        try Self.expectBackupsOfFilesMadeAnew(volume)
      }
    }

    private static func expectBackupsOfFilesMadeAnew(_ volume: Volume) throws {
      var onDisk = Set<[Int64]>()
      for round in 1...9 where onDisk.count < 6 {
        let contents = pattern(round, count: 100_000)
        // cp(1) sets the time of an open file.
        let source = volume.directory.appending("source")
        try source.write(Array(contents[..<3000]))
        try source.setTimes(seconds: 1_000_000_000, nanoseconds: 123_456_789)
        try volume.shell("rm -f long short; cp -p '\(source)' short")
        try volume.path("long").write(contents)
        try volume.path("long").setTimes(seconds: 1_000_000_000, nanoseconds: 123_456_789)
        let shown = try volume.shownTimes(of: ["long", "short"])
        #expect(shown == [[1_000_000_000, 123_456_789], [1_000_000_000, 123_456_789]])
        let times = try ["long", "short"].map { try volume.backingFile(of: volume.path($0)).modificationTime() }
        // One in 8191 has that of an earlier one.
        guard onDisk.isDisjoint(with: times), times[0] != times[1] else { continue }
        onDisk.formUnion(times)
        try volume.remount()
        #expect(try volume.shownTimes(of: ["long", "short"]) == shown, "round \(round)")
        try volume.backUp()
        try volume.expectBackup(contents, "round \(round)")
        try volume.unlock()
      }
      #expect(onDisk.count == 6, "\(onDisk)")
    }

    /// A program sees the same time after each rekey, also when the kernel has forgotten the file. The backing file has
    /// another each time, also if the program sets the time back.
    @Test func theTimeThatProgramsSeeStays() throws {
      try Volume.with { volume in
        let names = ["short", "long", "empty"]
        for (name, count) in zip(names, [3000, 5 << 20, 0]) { try volume.path(name).write(pattern(1, count: count)) }
        func set() throws {
          for name in names { try volume.path(name).setTimes(seconds: 1_000_000_000, nanoseconds: 123_456_789) }
        }
        try set()
        var before = try volume.shownTimes(of: names)
        var onDisk: [Set<[Int64]>] = names.map { _ in [] }
        for round in 0..<4 {
          for (index, name) in names.enumerated() {
            let new = try onDisk[index].insert(volume.backingFile(of: volume.path(name)).modificationTime()).inserted
            #expect(new || name == "empty", "\(name), round \(round)")
            try volume.path(name).rekey()
          }
          try volume.waitForRekeys()
          #expect(try volume.shownTimes(of: names) == before, "rekeyed, round \(round)")
          if round == 2 { try set() }
          try volume.remount()
          #expect(try volume.shownTimes(of: names) == before, "locked, round \(round)")
          try volume.unlock()
          #expect(try volume.shownTimes(of: names) == before, "unlocked, round \(round)")
        }
        try OpenFile(volume.path("short"), O_WRONLY | O_APPEND).append([1])
        before = try volume.shownTimes(of: names)
        #expect(try volume.path("short").modificationTime()[0] > 1_000_000_000)
        try volume.remount()
        #expect(try volume.shownTimes(of: names) == before, "appended")
      }
    }

    /// Where others may write the store, too, the kernel keeps no time of its own.
    @Test func theTimeOfAWriteStaysWithOtherWriters() throws {
      try Volume.store { volume in
        try volume.mount(["-o", "allow_other,shared"])
        try volume.unlock()
        let file = volume.path("file")
        try file.write("contents")
        try file.setTimes(seconds: 1_000_000_000)
        let open = try OpenFile(file, O_RDWR)
        try open.write(Array("written".utf8), at: 0)
        let written = try file.modificationTime()
        #expect(written[0] > 1_000_000_000)
        try file.rekey()
        try volume.waitForRekeys()
        #expect(try file.modificationTime() == written)
        withExtendedLifetime(open) {}
      }
    }

    /// Long files among so many others that their steps come far apart. What a program sets meanwhile stays, too.
    @Test func theTimeThatProgramsSeeStaysAmongMany() throws {
      try Volume.with { volume in
        let directory = volume.path("directory")
        try directory.makeDirectory()
        let long = (0..<6).map { directory.appending("long \($0)") }
        for file in long { try file.write(pattern(1, count: 9 << 20)) }
        let short = (0..<900).map { directory.appending("short \($0)") }
        for file in short { try file.write("short") }
        for file in long + short { try file.setTimes(seconds: 1_000_000_000, nanoseconds: 123_456_789) }
        for file in long + short { try file.rekey() }
        try long[0].setTimes(seconds: 1_100_000_000, nanoseconds: 5)
        try volume.waitForRekeys()
        try volume.remount()
        #expect(try long[0].modificationTime() == [1_100_000_000, 5])
        for file in long[1...] + short {
          #expect(try file.modificationTime() == [1_000_000_000, 123_456_789], "\(file)")
        }
        try volume.unlock()
        for file in long { try expectSame(file.contents(), pattern(1, count: 9 << 20), "\(file)") }
      }
    }

    /// A store that keeps no nanoseconds: a rekey moves the time by a second, and no more. The kernel, which knows the
    /// time from before, sends that more than once.
    @Test(.enabled(if: Program.isInstalled("mkfs.ext4"), "mkfs.ext4 is not installed"))
    func aStoreWithoutNanoseconds() throws {
      try LoopDisk.with(["-I", "128"]) { disk in
        try Volume.store(prepare: { try disk.attach($0.appending("backing")) }) { volume in
          defer { try? volume.backing.unmount(isLazy: true) }
          try volume.mount()
          try volume.unlock()
          let file = volume.path("file")
          try file.write("contents")
          try file.setTimes(seconds: 1_000_000_000, nanoseconds: 123_456_789)
          for round in 1...4 as ClosedRange<Int64> {
            for _ in 0..<2 {
              try file.rekey()
              try volume.waitForRekeys()
              for mode in [0o600, 0o644] as [mode_t] { try file.setMode(mode) }
            }
            try volume.remount()
            #expect(try file.modificationTime() == [1_000_000_000 + 2 * round, 0])
            try volume.unlock()
          }
          try file.setTimes(seconds: 1_000_000_000)
          try volume.remount()
          #expect(try file.modificationTime() == [1_000_000_000, 0])
        }
      }
    }

    /// A lock puts the rekey of a long file off.
    @Test func theTimeThatProgramsSeeStaysWhileARekeyIsPending() throws {
      try Volume.with { volume in
        let file = volume.path("file")
        try file.write(pattern(1, count: 40 << 20))
        try file.setTimes(seconds: 1_000_000_000, nanoseconds: 123_456_789)
        let before = try file.modificationTime()
        for round in 0..<3 {
          try file.rekey()
          try volume.lock()
          #expect(try file.modificationTime() == before, "locked, round \(round)")
          try volume.remount()
          #expect(try file.modificationTime() == before, "pending, round \(round)")
          try volume.unlock()
          try volume.waitForRekeys()
        }
        try volume.remount()
        #expect(try file.modificationTime() == before)
      }
    }

    /// For `restore`, copies of the store from before a change of class and from afterwards have the same files.
    @Test func aRestoreFindsTheSameFiles() throws {
      try Volume.with { volume in
        let file = volume.path("file")
        try file.write("contents")
        try file.setTimes(seconds: 1_000_000_000)
        for copy in [volume.directory.appending("before"), volume.directory.appending("after")] {
          #expect(try Program.run(["cp", "-a", volume.backing.description, copy.description]).succeeded)
          try file.setProtectionClass(.complete)
          try volume.waitForRekeys()
        }
        for copy in ["before", "after"] {
          let result = try volume.restore(from: volume.directory.appending(copy), ["--json"] + volume.openingOptions)
          #expect(result.succeeded && result.output.contains(#""alreadyThere":1"#), "\(copy): \(result.output)")
        }
      }
    }
  }
}

extension PathName {
  fileprivate func modificationTime() throws(Errno) -> [Int64] {
    let status = try status()
    return [status.modification_seconds, Int64(status.modification_nanoseconds)]
  }
}

extension Volume {
  fileprivate func shownTimes(of names: [String]) throws -> [[Int64]] {
    try names.map { try path($0).modificationTime() }
  }

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
