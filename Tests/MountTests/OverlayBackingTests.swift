import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// Stores and copies on overlayfs, as in containers and on live systems. The layers are on two file systems, so that
  /// files have other device numbers than directories.
  @Suite(
    .enabled(if: (try? PathName("/proc/filesystems").text().contains("overlay")) == true, "there is no overlayfs"))
  struct OverlayBackingTests {
    @Test func isCheckedAndRotated() throws {
      try Volume.with { volume in
        for name in ["low", "changed"] { try volume.path(name).write(name) }
        try volume.unmount()
        try withOverlay(on: volume.backing, in: volume.directory) {
          try volume.mount()
          try volume.unlock()
          try volume.path("d").makeDirectory()
          for name in ["changed", "up", "d/up"] { try volume.path(name).write("new \(name)") }
          let rotated = try Command.run(
            ["rotate", "--class", "C", volume.mountPoint.description]
              + ["--passcode-file", volume.passcodeFile.description])
          #expect(rotated.succeeded && rotated.output.contains("4 files were wrapped anew"), "\(rotated.output)")
          let data = try Command.run(["rotate", "--data", volume.mountPoint.description])
          #expect(data.succeeded && data.output.contains("4 files got a new key"), "\(data.output)")
          try volume.remount()
          try volume.unlock()
          for name in ["changed", "up", "d/up"] { #expect(try volume.path(name).text() == "new \(name)") }
          #expect(try volume.path("low").text() == "low")
          try volume.unmount()
          let check = try Command.run(["fsck", volume.backing.description] + volume.openingOptions)
          #expect(check.ending == .exited(0) && check.output.contains("5 entries, 0 errors"), "\(check.output)")
        }
      }
    }

    @Test func isRestoredFrom() throws {
      try Volume.with { volume in
        let source = volume.directory.appending("source")
        try source.makeDirectory()
        try source.appending("low").write("low")
        try withOverlay(on: source, in: volume.directory) {
          try source.appending("up").write("up")
          let result = try volume.restore(from: source)
          #expect(result.succeeded, "\(result.output)")
          for name in ["low", "up"] { #expect(try volume.path(name).text() == name) }
        }
      }
    }

    /// Moves a directory to the lower layer of an overlay, binds it to its path, calls `body`, and unmounts everything.
    private func withOverlay(on path: PathName, in directory: PathName, _ body: () throws -> Void) throws {
      let (lower, upper) = (directory.appending("lower"), directory.appending("upper"))
      let merged = directory.appending("merged")
      for made in [lower, upper, merged] { try made.makeDirectory(mode: 0o700) }
      try path.rename(to: lower.appending("files"))
      try path.makeDirectory(mode: 0o700)
      try mount("-t", "tmpfs", "none", on: upper)
      defer { try? upper.unmount(isLazy: true) }
      for name in ["files", "work"] { try upper.appending(name).makeDirectory(mode: 0o700) }
      let layers = "lowerdir=\(lower),upperdir=\(upper)/files,workdir=\(upper)/work,xino=off"
      try mount("-t", "overlay", "-o", layers, "none", on: merged)
      defer { try? merged.unmount(isLazy: true) }
      try mount("--bind", "\(merged)/files", on: path)
      defer { try? path.unmount(isLazy: true) }
      try body()
    }

    private func mount(_ arguments: String..., on path: PathName) throws {
      let result = try Program.run(["mount"] + arguments + [path.description])
      try #require(result.succeeded, "\(result.output)")
    }
  }
}
