import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// Stores and copies on overlayfs, as in containers and on live systems.
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

    /// A file that the overlay copies has another birth time and, where the layers are on two file systems, another
    /// inode number. A lock of a mount that has mapped the old one takes that too.
    @Test(arguments: [true, false]) func aLockReachesCopiedFiles(onOneFileSystem: Bool) throws {
      try Volume.with(defaultClass: .complete) { volume in
        try volume.path("a").write([UInt8](repeating: 7, count: 8192))
        try volume.unmount()
        try withOverlay(on: volume.backing, in: volume.directory, onOneFileSystem: onOneFileSystem) {
          let reader = try SecondMount(of: volume, "reader", options: "ro")
          try reader.unlock()
          let file = try OpenFile(reader.path("a"), O_RDONLY)
          let mapping = try Mapping(file, count: 8192, isWritable: false)
          #expect(try mapping.read(at: 0, count: 1) == [7])
          try volume.mount()
          try volume.unlock()
          try OpenFile(volume.path("a"), O_WRONLY).write([8], at: 4096)
          try OpenFile(volume.path("a"), O_WRONLY).synchronize()
          #expect(try reader.path("a").contents()[4096] == 8)
          #expect(try mapping.read(at: 0, count: 1) == [7])
          try reader.lock()
          #expect(throws: Errno.badAddress) { try mapping.read(at: 0, count: 1) }
          #expect(throws: Errno.permissionDenied) { try file.read(at: 0, count: 1) }
          #expect(throws: Errno.permissionDenied) { try reader.path("a").contents() }
        }
      }
    }

    /// Moves a directory to the lower layer of an overlay, binds it to its path, calls `body`, and unmounts everything.
    /// Unless the layers are on one file system, files have other device numbers than directories.
    private func withOverlay(
      on path: PathName, in directory: PathName, onOneFileSystem: Bool = false, _ body: () throws -> Void
    ) throws {
      let layers = directory.appending("layers")
      let lower = (onOneFileSystem ? layers : directory).appending("lower")
      let (upper, merged) = (layers.appending("upper"), directory.appending("merged"))
      for made in [layers, merged] { try made.makeDirectory(mode: 0o700) }
      try mount("-t", "tmpfs", "none", on: layers)
      defer { try? layers.unmount(isLazy: true) }
      for made in [lower, upper] { try made.makeDirectory(mode: 0o700) }
      try #require(Program.run(["mv", path.description, "\(lower)/files"]).succeeded)
      try path.makeDirectory(mode: 0o700)
      for name in ["files", "work"] { try upper.appending(name).makeDirectory(mode: 0o700) }
      let options = "lowerdir=\(lower),upperdir=\(upper)/files,workdir=\(upper)/work,xino=off"
      try mount("-t", "overlay", "-o", options, "none", on: merged)
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
