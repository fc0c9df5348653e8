import Glibc
import ProtectfsClient
import ProtectfsIO
import SystemPackage
import Testing

extension MountTests {
  /// A daemon whose control group leaves less memory than a passcode takes: the kernel would kill it for that, and the
  /// mount would go.
  @Suite(.enabled(if: MemoryGroup.isPossible, "no control group can be given a limit of memory here"))
  struct MemoryLimitTests {
    @Test func aPasscodeIsRefusedAndTheMountStays() throws {
      let group = try MemoryGroup()
      defer { try? group.remove() }
      try Volume.store { volume in
        try group.set(mebibytes: 64)
        try volume.mount(through: ["sh", "-c", "echo $$ > $0/cgroup.procs; exec \"$@\"", group.path.description])
        let wrong = volume.directory.appending("wrong")
        try wrong.write("wrong")
        try wrong.setMode(0o600)
        // More often than wrong passcodes are free of a delay.
        for file in [wrong, wrong, wrong, wrong, wrong, wrong, volume.passcodeFile] {
          let refused = try Command.run(["unlock", "--passcode-file", "\(file)", "\(volume.mountPoint)"])
          #expect(refused.ending == .exited(29), "\(refused.output)")
          #expect(refused.output.contains("a passcode takes 69 MiB of memory, and \(group.path)/"), "\(refused.output)")
        }
        #expect(try volume.status().state == .beforeFirstUnlock)

        try group.set(mebibytes: 192)
        let counted = try Command.run(["unlock", "--passcode-file", "\(wrong)", "\(volume.mountPoint)"])
        #expect(counted.ending == .exited(3), "none was counted: \(counted.output)")
        try volume.unlock(Volume.passcode)
        try volume.path("file").write("contents")
        try volume.lock()

        // A recovery key takes no more than what is there.
        try group.set(mebibytes: 64)
        try volume.unlock()
        #expect(try volume.path("file").contents() == Array("contents".utf8))
        try volume.unmount()
      }
    }

    /// A change of the passcode is refused as well, and the old one stays.
    @Test func aChangeIsRefusedToo() throws {
      let group = try MemoryGroup()
      defer { try? group.remove() }
      try Volume.store { volume in
        let launcher = ["sh", "-c", "echo $$ > $0/cgroup.procs; exec \"$@\"", group.path.description]
        let new = volume.directory.appending("new")
        try new.write("another passcode")
        try new.setMode(0o600)
        let change =
          launcher + [
            Command.path, "passcode", "change", "--passcode-file", volume.passcodeFile.description,
            "--new-passcode-file", new.description, "--device-key", volume.deviceKey.description,
            volume.backing.description,
          ]
        try group.set(mebibytes: 64)
        let refused = try Program.run(change)
        #expect(refused.ending == .exited(29), "\(refused.output)")
        try volume.mount()
        try volume.unlock(Volume.passcode)
      }
    }
  }
}

/// A group with a limit, of version 1 of cgroups(7) or of version 2.
private struct MemoryGroup {
  let path: PathName
  private let limit: String

  private static let roots = [
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"),
  ]

  static let isPossible = (try? MemoryGroup().remove()) != nil

  init() throws {
    for (root, limit) in Self.roots {
      let path = PathName("\(root)/protectfs-tests-memory.\(getpid())")
      guard geteuid() == 0, failure(of: { () throws(Errno) in try path.makeDirectory() }) == nil else { continue }
      if path.appending(limit).exists {
        (self.path, self.limit) = (path, limit)
        return
      }
      try path.removeDirectory()
    }
    throw Errno.notSupported
  }

  func set(mebibytes: Int) throws { try write("\(mebibytes << 20)", to: limit) }
  func add(_ process: CInt) throws { try write("\(process)", to: "cgroup.procs") }

  /// It is in use until its last process has ended.
  func remove() throws { while failure(of: path.removeDirectory) == .resourceBusy { usleep(10_000) } }

  private func write(_ text: String, to file: String) throws {
    try OpenFile(path.appending(file), O_WRONLY).append(Array(text.utf8))
  }
}
