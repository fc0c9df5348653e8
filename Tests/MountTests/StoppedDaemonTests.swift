import CSystemCalls
import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// The command waits for a daemon that was stopped or frozen, and says so.
  @Suite struct StoppedDaemonTests {
    @Test func commandsSayWhatTheyWaitFor() throws {
      try Volume.with { volume in
        try expectNotices(on: volume, "the daemon (process \(volume.processID)) is stopped (SIGSTOP)") { isStopped in
          #expect(calls_kill(volume.processID, isStopped ? SIGSTOP : SIGCONT) == 0)
        }
      }
    }

    /// Where groups can be frozen: the hierarchy's directory, and the file and the words that freeze and thaw one.
    struct Freezer: Sendable, CustomTestStringConvertible {
      let root: String
      let file: String
      let (freeze, thaw): (String, String)
      var testDescription: String { root }

      /// Those that can be used here: version 2 of cgroups(7), alone or beside version 1, and version 1.
      static let all = [
        Freezer(root: "/sys/fs/cgroup", file: "cgroup.freeze", freeze: "1", thaw: "0"),
        Freezer(root: "/sys/fs/cgroup/unified", file: "cgroup.freeze", freeze: "1", thaw: "0"),
        Freezer(root: "/sys/fs/cgroup/freezer", file: "freezer.state", freeze: "FROZEN", thaw: "THAWED"),
      ].filter { freezer in
        let probe = PathName("\(freezer.root)/protectfs-tests-probe.\(getpid())")
        guard geteuid() == 0, failure(of: { () throws(Errno) in try probe.makeDirectory() }) == nil else {
          return false
        }
        defer { try? probe.removeDirectory() }
        return probe.appending(freezer.file).exists
      }
    }

    /// The group above the daemon's is frozen. The daemon's state is that of one that sleeps.
    @Test(
      .enabled(if: !StoppedDaemonTests.Freezer.all.isEmpty, "no control group can be frozen here"),
      arguments: Freezer.all)
    func aFrozenDaemonIsNoticedToo(_ freezer: Freezer) throws {
      let outer = PathName("\(freezer.root)/protectfs-tests-frozen.\(getpid())")
      let inner = outer.appending("inner")
      func write(_ word: String, to file: PathName) throws { try OpenFile(file, O_WRONLY).append(Array(word.utf8)) }
      try outer.makeDirectory()
      // It is in use until its last process has ended.
      defer { while failure(of: outer.removeDirectory) == .resourceBusy { usleep(10_000) } }
      try inner.makeDirectory()
      defer { while failure(of: inner.removeDirectory) == .resourceBusy { usleep(10_000) } }
      try Volume.with { volume in
        try write("\(volume.processID)", to: inner.appending("cgroup.procs"))
        let file = outer.appending(freezer.file)
        let notice =
          "the daemon (process \(volume.processID)) is frozen with its control group, and is waited for; "
          + "'echo \(freezer.thaw) >\(file)' has it go on"
        try expectNotices(on: volume, notice) { isStopped in
          try write(isStopped ? freezer.freeze : freezer.thaw, to: file)
        }
        try volume.unmount()
      }
    }

    /// Stops the daemon, and expects what commands say of it. They end, and the first completes when it goes on.
    private func expectNotices(on volume: Volume, _ notice: String, _ setStopped: (Bool) throws -> Void) throws {
      try setStopped(true)
      defer { try? setStopped(false) }
      let calls = [
        ["lock", "--now"], ["status"], ["unlock", "--passcode-file", volume.passcodeFile.description], ["unmount"],
      ]
      let programs = try calls.map { call in
        try Program(
          [Command.path] + call + [volume.mountPoint.description], output: volume.directory.appending(call[0]))
      }
      for (call, program) in zip(calls, programs) {
        eventually { !program.output.isEmpty || program.poll() != nil }
        #expect(program.output.contains(notice), "\(call): \(program.output)")
        #expect(program.poll() == nil, "\(call): \(program.output)")
      }
      for program in programs.dropFirst() { program.send(SIGKILL) }
      for program in programs.dropFirst() { _ = program.wait() }
      try setStopped(false)
      #expect(programs[0].wait() == .exited(0), "\(programs[0].output)")
    }
  }
}
