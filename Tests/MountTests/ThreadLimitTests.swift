import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import Testing

extension MountTests {
  /// A user who has as many threads and processes as the system admits.
  @Suite(
    .enabled(
      if: LimitedUser.mayMount,
      "an ordinary user may not run the command, or prlimit, setpriv or fusermount3 is missing")
  )
  struct ThreadLimitTests {
    private func withStore(_ body: (Volume) throws -> Void) throws {
      try Volume.store { volume in
        let owner = "\(LimitedUser.number):\(LimitedUser.number)"
        try #require(try Program.run(["chown", "-R", owner, volume.directory.description]).succeeded)
        defer { TemporaryDirectory.remove(PathName("/tmp/protectfs-\(LimitedUser.number)")) }
        try body(volume)
      }
    }

    private func mount(_ volume: Volume, _ transport: String, limit: Int? = nil) throws {
      try volume.mount(["-o", "threads=3,transport=\(transport)"], through: LimitedUser.launcher(limit: limit))
    }

    /// Returns what is said of a mount that is refused.
    private func refusal(_ volume: Volume, _ transport: String, limit: Int) throws -> String {
      do {
        try mount(volume, transport, limit: limit)
      } catch let failure as MountFailure {
        #expect(failure.ending == .exited(1), "\(failure.ending)")
        #expect(!volume.isMounted)
        return failure.output
      }
      Issue.record("mounted with \(limit) processes and threads")
      try volume.unmount()
      return ""
    }

    /// Commands that need threads do not begin without.
    @Test func commandsSayThatTheyHaveNoThreads() throws {
      try withStore { volume in
        try mount(volume, "device")
        for arguments in [["session"], ["hooks", "--directory", "/etc", volume.mountPoint.description]] {
          let result = try Program.run(LimitedUser.launcher(limit: 1) + [Command.path] + arguments)
          #expect(result.ending == .exited(1) && result.output.contains("no process or thread"), "\(result.output)")
        }
        try volume.unmount()
      }
    }

    @Test(arguments: ["device", "io_uring"]) func aMountHasAllItsThreadsOrNone(_ transport: String) throws {
      try withStore { volume in
        // The first process, and what unmounts.
        let without = try refusal(volume, transport, limit: 2)
        #expect(without.contains("a mount needs ") && without.contains("only 0 can be started"), "\(without)")
        #expect(without.contains("ulimit -u") && without.contains("-o threads="), "\(without)")
        let needed = try #require(without.split(separator: " ").lazy.compactMap { Int($0) }.first)
        let almost = try refusal(volume, transport, limit: needed + 1)
        #expect(almost.contains("only \(needed - 1) can be started"), "\(almost)")
        // One more is fusermount3.
        try mount(volume, transport, limit: needed + 3)
        try volume.unlock()
        // It keeps no thread that has nothing to do.
        let deadline = ContinuousClock.now + .seconds(20)
        while try ProcessStatus.threads(of: volume.processID).contains(where: { $0["Name"] == "reserved" }) {
          try #require(ContinuousClock.now < deadline)
          usleep(2000)
        }
        try volume.lock()
        try volume.unmount()
      }
    }

    @Test func aProcessThatCannotBeStartedIsNamed() throws {
      try withStore { volume in
        let refused = try refusal(volume, "device", limit: 1)
        #expect(refused.contains("ulimit -u") && refused.contains("pids.max"), "\(refused)")
      }
    }

    /// As after the start of a great many programs.
    @Test(arguments: ["device", "io_uring"]) func aLockNeedsNoNewThread(_ transport: String) throws {
      try withStore { volume in
        try mount(volume, transport)
        try volume.unlock()
        let file = volume.path("file").description
        let asUser = LimitedUser.launcher()
        let written = try Program.run(asUser + ["sh", "-c", "echo secret > \(file)"])
        #expect(written.succeeded, "\(written.output)")
        let classSet = try Program.run(asUser + [Command.path, "class", "set", "complete", file])
        #expect(classSet.succeeded, "\(classSet.output)")
        #expect(try Program.run(asUser + ["prlimit", "--pid", "\(volume.processID)", "--nproc=1:1"]).succeeded)
        for arguments in [
          ["lock", "--now", volume.mountPoint.description], ["lock", "--inactive", volume.mountPoint.description],
        ] {
          let locked = try Command.run(arguments)
          #expect(locked.succeeded, "\(locked.output)")
        }
        #expect(try volume.status().state == .inactive)
        #expect(try !Program.run(asUser + ["cat", file]).succeeded)
        try volume.unlock()
        #expect(try Program.run(asUser + ["cat", file]).output == "secret\n")
        try volume.unmount()
      }
    }

    /// In a mount namespace of its own, which has the mount or only its daemon's socket.
    @Test(arguments: [true, false]) func aLockOfAllNeedsNoThread(hasMount: Bool) throws {
      try withStore { volume in
        let script = """
          \(OtherNamespaceTests.hidingAll)
          user="\(LimitedUser.launcher().joined(separator: " "))"
          $user "$0" mount "$1" "$2" --device-key "$3" --passcode-file "$4" --unlock || exit
          unshare --mount --propagation private sh -c '
            \(hasMount ? "" : "umount -l \"$1\" &&")
            exec \(LimitedUser.launcher(limit: 1).joined(separator: " ")) "$0" lock --all --now' "$0" "$2"
          echo "lock: $?"
          $user "$0" status "$2"; $user "$0" unmount "$2"
          """
        let files = [volume.backing, volume.mountPoint, volume.deviceKey, volume.passcodeFile].map(\.description)
        let result = try Program.run(
          ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, Command.path] + files)
        #expect(result.output.contains("lock: 0\n"), "\(result.output)")
        #expect(result.output.contains("\(volume.mountPoint): locked\n"), "\(result.output)")
      }
    }
  }
}

/// A user whom every system knows, as fusermount3(1) requires, and of whom no process runs that would count.
private enum LimitedUser {
  static let number = 2

  /// What has this user run a program, with as many processes and threads.
  static func launcher(limit: Int? = nil) -> [String] {
    ["setpriv", "--reuid=\(number)", "--regid=\(number)", "--clear-groups"]
      + (limit.map { ["prlimit", "--nproc=\($0)"] } ?? [])
  }

  static let mayMount =
    Program.isInstalled("prlimit") && Program.isInstalled("fusermount3")
    && (try? Program.run(launcher() + [Command.path, "--version"]))?.succeeded == true
}
