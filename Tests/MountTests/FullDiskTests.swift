import Glibc
import ProtectfsIO
import SystemPackage
import Testing

/// A small ext4 in a file, for a store. It is gone after ``with(_:_:)``, even after a failure.
struct LoopDisk {
  private let directory: PathName
  var mounted: PathName { directory.appending("disk") }

  static func with(_ options: [String] = [], _ body: (LoopDisk) throws -> Void) throws {
    TemporaryDirectory.removeLeftovers
    let directory = try TemporaryDirectory.make()
    defer { TemporaryDirectory.remove(directory) }
    let disk = LoopDisk(directory: directory)
    let image = directory.appending("image")
    try image.write([])
    try image.truncate(to: 10 << 20)
    try run(["mkfs.ext4", "-q", "-m", "0", "-N", "600"] + options + [image.description])
    try disk.mounted.makeDirectory()
    try run(["mount", "-o", "loop", image.description, disk.mounted.description])
    defer { try? disk.mounted.unmount(isLazy: true) }
    try body(disk)
  }

  /// Mounts an empty directory of it as the backing directory of a volume.
  func attach(_ backing: PathName) throws {
    let store = mounted.appending("store")
    try store.makeDirectory()
    try backing.makeDirectory()
    try Self.run(["mount", "--bind", store.description, backing.description])
  }

  /// Leaves no free block on it, and if requested no free inode.
  func fill(inodes: Bool) throws {
    let filler = mounted.appending("filler")
    try filler.makeDirectory()
    var number = 0
    while inodes, failure(of: { () throws(Errno) in try filler.appending("\(number)").write("") }) == nil {
      number += 1
    }
    let path = inodes ? filler.appending("0") : filler.appending("blocks")
    if !inodes { try path.write("") }
    let file = try OpenFile(path, O_RDWR)
    var end = 0
    func grow(by size: Int) -> Bool {
      let error = failure { () throws(Errno) in try file.write(pattern(end, count: size), at: end) }
      if error == nil { end += size }
      return error == nil
    }
    // Blocks reserved for extents are free again when the file is on disk.
    repeat {
      while grow(by: 1 << 18) || grow(by: 4096) {}
      try file.synchronize()
    } while grow(by: 4096)
    let more = mounted.appending("more")
    let error = failure { () throws(Errno) in try more.write(pattern(1, count: 4096)) }
    #expect(error == .noSpace, "\(String(describing: error)) after \(end) bytes")
    #expect(more.exists == !inodes)
    if more.exists { try more.unlink() }
  }

  private static func run(_ arguments: [String]) throws {
    let result = try Program.run(arguments)
    try #require(result.succeeded, "\(arguments): \(result.output)")
  }
}

extension MountTests {
  @Suite(.enabled(if: Program.isInstalled("mkfs.ext4"), "mkfs.ext4 is not installed")) struct FullDiskTests {
    /// With and without room for the record in the inode.
    @Test(arguments: ["256", "128"]) func nothingAcknowledgedIsLost(inodeSize: String) throws {
      try withStore(["-I", inodeSize]) { volume, _ in
        // Something to remove when there is no room left.
        try volume.path("ballast").write(pattern(0, count: 1 << 20))
        var kept: [Int] = []
        var error: Errno?
        for number in 0..<10_000 where error == nil {
          error = failure { () throws(Errno) in
            let file = try OpenFile(path(volume, number), O_RDWR | O_CREAT | O_EXCL)
            try file.write(contents(number), at: 0)
            try file.synchronize()
          }
          if error == nil { kept.append(number) }
        }
        #expect(error == .noSpace && kept.count > 20, "\(kept.count) files, then \(String(describing: error))")
        for _ in 0..<3 {
          let again = failure { () throws(Errno) in try volume.path("more").write(pattern(9, count: 1 << 20)) }
          let name = failure { () throws(Errno) in
            for number in 0..<20_000 { try volume.path("\(number)" + FaultOperation.long("e")).write("") }
          }
          #expect(name == .noSpace, "\(String(describing: again))")
        }
        try expectKept(kept, volume)
        try volume.path("ballast").unlink()
        try path(volume, kept[0]).unlink()
        kept.removeFirst()
        try volume.path("after").write(pattern(3, count: 200_000))
        try volume.remount()
        try volume.unlock()
        try expectKept(kept, volume)
        #expect(try volume.path("after").contents() == pattern(3, count: 200_000))
        try volume.unmount()
        #expect(try volume.notesOfCheck("after a full disk").isEmpty)
      }
    }

    @Test func aDiskThatBecomesReadOnly() throws {
      try Volume.onHosts(others: 0) { volume, host, _ in
        try volume.mount()
        try volume.unlock()
        try volume.path("file").write("kept")
        try volume.path("d").makeDirectory()
        try host.setReadOnly(true)
        #expect(try volume.path("file").contents() == Array("kept".utf8))
        let changes: [(String, (PathName) throws(Errno) -> Void)] = [
          ("create", { p throws(Errno) in try p.appending("new").write("x") }),
          ("create, long name", { p throws(Errno) in try p.appending(FaultOperation.long("n")).write("x") }),
          (
            "write",
            { p throws(Errno) in
              let file = try OpenFile(p.appending("file"), O_RDWR)
              try file.write([1], at: 0)
              try file.synchronize()
            }
          ),
          ("truncate", { p throws(Errno) in try p.appending("file").truncate(to: 1) }),
          ("mkdir", { p throws(Errno) in try p.appending("e").makeDirectory() }),
          ("symlink", { p throws(Errno) in try p.appending("l").makeSymbolicLink(to: "file") }),
          ("rename", { p throws(Errno) in try p.appending("file").rename(to: p.appending("moved")) }),
          ("link", { p throws(Errno) in try p.appending("file").link(as: p.appending("second")) }),
          ("unlink", { p throws(Errno) in try p.appending("file").unlink() }),
          ("rmdir", { p throws(Errno) in try p.appending("d").removeDirectory() }),
          ("chmod", { p throws(Errno) in try p.appending("file").setMode(0o600) }),
          ("set class", { p throws(Errno) in try p.appending("file").setProtectionClass(.complete) }),
          ("set attribute", { p throws(Errno) in try p.appending("file").setExtendedAttribute("user.a", to: [1]) }),
        ]
        for (name, change) in changes {
          let error = failure { () throws(Errno) in try change(volume.mountPoint) }
          #expect(error == .readOnlyFileSystem, "\(name): \(String(describing: error))")
        }
        #expect(try volume.path("file").contents() == Array("kept".utf8))
        try host.setReadOnly(false)
        for (name, change) in changes where !["unlink", "rename", "rmdir"].contains(name) {
          #expect(failure { () throws(Errno) in try change(volume.mountPoint) } == nil, "\(name)")
        }
        try volume.unmount()
        #expect(try volume.notesOfCheck("after a read-only disk").isEmpty)
      }
    }

    func withStore(
      _ options: [String] = [], initOptions: [String]? = nil, _ body: (Volume, LoopDisk) throws -> Void
    ) throws {
      try LoopDisk.with(options) { disk in
        var attached: PathName?
        defer { try? attached?.unmount(isLazy: true) }
        let attach = { (directory: PathName) in
          attached = directory.appending("backing")
          try disk.attach(directory.appending("backing"))
        }
        try Volume.store(initOptions: initOptions, prepare: attach) { volume in
          // Before the volume's directory goes.
          defer { try? volume.backing.unmount(isLazy: true) }
          try volume.mount()
          try volume.unlock()
          try body(volume, disk)
          if volume.isMounted { try volume.unmount() }
        }
      }
    }

    private func path(_ volume: Volume, _ number: Int) -> PathName {
      volume.path(number % 2 == 0 ? "\(number)" : "\(number)" + FaultOperation.long("n"))
    }

    private func contents(_ number: Int) -> [UInt8] { pattern(number, count: number * 4099 % 100_000) }

    private func expectKept(_ kept: [Int], _ volume: Volume) throws {
      for number in kept {
        let isKept = try path(volume, number).contents() == contents(number)
        #expect(isKept, "file \(number)")
      }
    }
  }

  /// A backing file system without user attributes.
  @Suite struct NoAttributesTests {
    @Test func initAndMountSayWhatToUse() throws {
      try Volume.store { volume in
        let other = volume.directory.appending("ramfs")
        try other.makeDirectory()
        try #require(try Program.run(["mount", "-t", "ramfs", "none", other.description]).succeeded)
        defer { try? other.unmount(isLazy: true) }
        let (empty, copy) = (other.appending("empty"), other.appending("copy"))
        let made = try Command.run([
          "init", empty.description, "--passcode-file", volume.passcodeFile.description, "--device-key",
          volume.deviceKey.description,
        ])
        #expect(made.ending == .exited(1) && made.output.contains("use ext4, XFS, Btrfs"), "\(made.output)")
        #expect(try empty.names().isEmpty, "nothing is left")
        try #require(
          try Program.run(["cp", "-r", volume.backing.description, copy.description]).succeeded)
        let mounted = try Command.run([
          "mount", copy.description, volume.mountPoint.description, "--foreground", "--device-key",
          volume.deviceKey.description,
        ])
        #expect(mounted.ending == .exited(1) && mounted.output.contains("use ext4, XFS, Btrfs"), "\(mounted.output)")
      }
    }
  }
}
