import Glibc
import KeyManagement
import ProtectfsIO
import StoreFormat
import SystemPackage
import Testing

// What a restore leaves out is told, and the exit status says so.
extension MountTests.RestoreTests {
  /// Of a damaged store.
  @Test func damageIsTold() throws {
    try withCopy {
      """
      echo kept > kept; echo 1 > attribute; setfattr -n user.a -v 1 attribute; setfattr -n user.b -v 2 attribute
      mkdir d; echo in > d/in; echo short > short
      for letter in l m n; do echo long > "$(printf "$letter%.0s" {1..255})"; done
      """
    } damage: { copy in
      """
      cd '\(copy)'
      sidecars=(./*.name); rm "${sidecars[0]}" "${sidecars[1]}"; mkdir "${sidecars[1]}"
      touch foreign d; mkdir lost+found; echo x > lost+found/x
      for f in ./*; do
        names=$(getfattr -m '^user\\.' "$f" | grep '^user\\.' | grep -v cprotect) || continue
        name=$(head -1 <<< "$names"); setfattr -n "$name" -v damaged "$f"
      done
      for f in ./*; do if [[ "$(stat -c %s "$f")" =~ ^(22|4102)$ ]]; then truncate -s 7 "$f"; fi; done
      """
    } body: { volume, copy in
      let result = try volume.restore(from: copy, volume.openingOptions + ["--json"])
      #expect(result.ending == .exited(15), "\(result.output)")
      for text in [
        "'foreign'", "'d'", "'lost+found'", "attribute: its extended attribute user.protectfs", "short cannot be read",
        #""leftOut":6"#, #""failed":1"#, #""isComplete":false"#, #""kind":"leftOut""#, #""path":"short""#,
      ] {
        #expect(result.output.contains(text), "\(text): \(result.output)")
      }
      #expect(try volume.path("kept").contents() == Array("kept\n".utf8))
      #expect(try volume.path("attribute").contents() == Array("1\n".utf8))
      #expect(try volume.path("attribute").attributeNames().count { $0.description.hasPrefix("user.") } == 1)
      #expect(!volume.path("short").exists)
      #expect(try volume.mountPoint.names().count { $0.bytes.count == 255 } == 1)
      #expect(try volume.path("d/in").contents() == Array("in\n".utf8))
    }
  }

  /// Restores two files, `damaged` and `sound`; returns where they are from.
  private func restoreTwoFiles(to volume: Volume) throws -> PathName {
    let source = volume.directory.appending("source")
    try source.makeDirectory()
    for name in ["damaged", "sound"] { try source.appending(name).write(pattern(1, count: 20_000)) }
    #expect(try volume.restore(from: source).succeeded)
    return source
  }

  /// A file that is as long and as old as it should be, and damaged.
  @Test func whatCannotBeReadIsReplaced() throws {
    try Volume.store(initOptions: ["--authenticated"]) { volume in
      try volume.mount()
      try volume.unlock()
      let source = try restoreTwoFiles(to: volume)
      let backing = try volume.backingFile(of: volume.path("damaged"))
      try volume.unmount()
      let time = try backing.status()
      try OpenFile(backing, O_RDWR).write([1, 2, 3], at: 9000)
      try backing.setTimes(seconds: time.modification_seconds, nanoseconds: Int64(time.modification_nanoseconds))
      try volume.mount()
      try volume.unlock()
      let first = try volume.restore(from: source, ["--json"])
      #expect(first.output.contains(#""alreadyThere":2"#), "\(first.output)")
      let second = try volume.restore(from: source, ["--overwrite", "--json"])
      #expect(second.succeeded && second.output.contains(#""alreadyThere":1"#), "\(second.output)")
      #expect(try volume.path("damaged").contents() == pattern(1, count: 20_000))
    }
  }

  /// One byte of a file that is as long and as old as it should be; without authentication, reading does not fail.
  @Test func whatHasOtherContentsIsReplaced() throws {
    try Volume.with { volume in
      let source = try restoreTwoFiles(to: volume)
      let (file, time) = (volume.path("damaged"), try source.appending("damaged").status())
      try OpenFile(file, O_RDWR).write([1], at: 9000)
      try file.setTimes(seconds: time.modification_seconds, nanoseconds: Int64(time.modification_nanoseconds))
      let result = try volume.restore(from: source, ["--overwrite", "--json"])
      #expect(result.succeeded && result.output.contains(#""alreadyThere":1"#), "\(result.output)")
      #expect(try file.contents() == pattern(1, count: 20_000))
    }
  }

  /// What a repair has moved out of the tree has no path there.
  @Test func whatARepairHasMovedOutIsTold() throws {
    try withCopy {
      "echo kept > kept; printf -v name '%0255d' 1; echo long > $name"
    } damage: {
      "rm '\($0)'/*.name"
    } body: { volume, copy in
      let repair = try Command.run(["fsck", "--repair", "--device-key", volume.deviceKey.description, copy.description])
      #expect(repair.ending == .exited(1), "\(repair.output)")
      let result = try volume.restore(from: copy, volume.openingOptions)
      #expect(result.ending == .exited(15) && result.output.contains(".protectfs/lost+found"), "\(result.output)")
      #expect(try volume.path("kept").contents() == Array("kept\n".utf8))
    }
  }

  /// An empty `lost+found` is what every ext4 file system has in its root.
  @Test func anEmptyLostAndFoundIsNothing() throws {
    try withCopy {
      "echo kept > kept"
    } damage: {
      "mkdir '\($0)/lost+found'"
    } body: { volume, copy in
      let result = try volume.restore(from: copy, volume.openingOptions)
      #expect(result.succeeded, "\(result.output)")
    }
  }

  /// Of one thing as of many.
  @Test func aSingleFailureIsTold() throws {
    try Volume.with { volume in
      let source = volume.directory.appending("source")
      try source.makeDirectory()
      // No mount is crossed.
      try source.appending("version").write("")
      try #require(
        try Program.run(["mount", "--bind", "/proc/version", source.appending("version").description]).succeeded)
      defer { try? source.appending("version").unmount(isLazy: true) }
      let result = try volume.restore(from: source)
      #expect(result.ending == .exited(15) && result.output.contains("1 could not be restored"), "\(result.output)")
    }
  }

  /// What only root can give is given by root, and told by others.
  @Test(.enabled(if: Program.isInstalled("setpriv") && Program.isInstalled("setcap"), "setpriv or setcap is missing"))
  func whatOnlyRootGives() throws {
    let script = """
      echo cap > cap; setcap cap_net_raw=ep cap; echo t > trusted; setfattr -n trusted.t -v 1 trusted
      mkdir d; setfattr -n trusted.d -v 2 d; ln -s cap link; setfattr -h -n trusted.l -v 3 link
      chown 1234:5678 d; echo other > d/other; chown 4321:8765 d/other; chmod 4755 d/other
      """
    let check = """
      getcap cap | grep -q cap_net_raw; test "$(getfattr --only-values -n trusted.t trusted)" = 1
      test "$(getfattr --only-values -n trusted.d d)" = 2; test "$(getfattr -h --only-values -n trusted.l link)" = 3
      test "$(stat -c %u:%g d)" = 1234:5678; test "$(stat -c %a:%u:%g d/other)" = 4755:4321:8765
      """
    try withCopy {
      script
    } damage: { _ in
      ""
    } body: { volume, copy in
      let plain = volume.directory.appending("plain")
      try plain.makeDirectory()
      try volume.shell(script, in: "plain")
      for (from, options) in [(plain, []), (copy, volume.openingOptions)] {
        let result = try volume.restore(from: from, options)
        #expect(result.succeeded, "\(result.output)")
        try volume.shell(check)
        try volume.shell("rm -r *")
      }
      try volume.path("target").makeDirectory()
      try volume.mountPoint.setMode(0o777)
      try volume.path("target").setOwner(user: 1000, group: 1000)
      let arguments = [
        "setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", Command.path, "restore", "--json", "--from",
        plain.description, volume.path("target").description,
      ]
      // The second run finds the files, and says so of them as well.
      for count in [6, 5] {
        let result = try Program.run(arguments)
        #expect(result.ending == .exited(15), "\(result.output)")
        for text in ["cap: only root restores its extended attribute security.capability", "d/other: only root"] {
          #expect(result.output.contains(text), "\(result.output)")
        }
        #expect(result.output.contains(#""leftOut":\#(count)"#), "\(result.output)")
        #expect(try volume.path("target/d/other").contents() == Array("other\n".utf8))
      }
    }
  }

  /// Ciphertext is not taken for plaintext.
  @Test func aStoreWithoutAKeybagIsNoPlaintext() throws {
    try withCopy {
      "echo kept > kept"
    } damage: {
      "rm '\($0)/.protectfs/'keybag*"
    } body: { volume, copy in
      for options in [[], volume.openingOptions] {
        let result = try volume.restore(from: copy, options)
        #expect(result.ending == .exited(4), "\(result.output)")
        #expect(try volume.mountPoint.names().isEmpty)
      }
    }
  }

  /// Whatever the secret, and when the erasure got no further than the second copy.
  @Test func anErasedStoreIsToldAsSuch() throws {
    try Volume.store { volume in
      try volume.mount()
      try volume.unlock()
      try volume.unmount()
      let (before, after) = (volume.directory.appending("before"), volume.directory.appending("after"))
      try #require(try Program.run(["cp", "-a", volume.backing.description, before.description]).succeeded)
      try #require(try Program.run(["cp", "-a", volume.backing.description, after.description]).succeeded)
      let erased = try Command.run(["erase", "--yes", "--device-key", volume.deviceKey.description, after.description])
      try #require(erased.succeeded, "\(erased.output)")
      try volume.shell(
        """
        cp after/.protectfs/keybag before/.protectfs/keybag.previous
        head -c "$(stat -c %s before/.protectfs/effaceable)" /dev/zero > before/.protectfs/effaceable
        """, in: "")
      try volume.directory.appending("recovery").write(volume.recoveryKey, mode: 0o600)
      try volume.mount()
      try volume.unlock()
      for options in [volume.openingOptions, ["--recovery-key-file", "\(volume.directory)/recovery"]] {
        for from in [after, before] {
          let result = try volume.restore(from: from, options)
          #expect(result.ending == .exited(21) && result.output.contains("was erased on"), "\(from): \(result.output)")
        }
      }
    }
  }

  /// A store with what a script makes, copied and damaged by another, and the mount of a new store beside it.
  private func withCopy(
    _ script: () -> String, damage: (PathName) -> String, body: (Volume, PathName) throws -> Void
  ) throws {
    try Volume.store { volume in
      try volume.mount()
      try volume.unlock()
      try volume.shell(script())
      try volume.unmount()
      let copy = volume.directory.appending("copy")
      try #require(try Program.run(["cp", "-a", volume.backing.description, copy.description]).succeeded)
      let damaged = try Program.run(["bash", "-c", damage(copy)])
      try #require(damaged.succeeded, "\(damaged.output)")
      try volume.mount()
      try volume.unlock()
      try volume.shell("find . -mindepth 1 -delete")
      try body(volume, copy)
    }
  }
}
