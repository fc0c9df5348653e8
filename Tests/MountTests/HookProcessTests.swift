import CSystemCalls
import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// The process that runs hooks: when it exists, what it inherits, and that it ends.
  @Suite struct HookProcessTests {
    private func with(_ body: (Volume, Hooks) throws -> Void) throws {
      try Volume.store { volume in
        let hooks = try Hooks(in: volume.directory)
        try hooks.addNotes()
        try body(volume, hooks)
      }
    }

    /// The process beside a mount.
    private func runner(of volume: Volume) throws -> CInt? {
      try CommandLines.processes(with: "--beside-mount").first { process in
        let line = (try? ProcessStatus.read(PathName("/proc/\(process)/cmdline"))) ?? []
        return String(decoding: line, as: UTF8.self).contains(volume.mountPoint.description)
      }
    }

    @Test func endsWithTheMount() throws {
      try with { volume, hooks in
        try volume.mount(hooks.options())
        #expect(try runner(of: volume) != nil)
        // Whoever looks at a new mount for the first time keeps it busy for a moment.
        try volume.unmountOnceIdle()
        #expect(try CommandLines.haveGone(with: volume.mountPoint.description))
      }
    }

    @Test func endsWhenTheDaemonIsToldTo() throws {
      try with { volume, hooks in
        try volume.mount(hooks.options())
        #expect(calls_kill(volume.processID, SIGTERM) == 0)
        #expect(volume.waitForDaemon() == .exited(0))
        #expect(try CommandLines.haveGone(with: volume.mountPoint.description))
      }
    }

    /// With it a script ends that does not want to.
    @Test func endsWithAKilledDaemon() throws {
      try with { volume, hooks in
        let slow = try hooks.add("post-unlock/a", "trap '' TERM; note begun; while :; do sleep 0.1; done")
        try volume.mount(hooks.options())
        try volume.unlock()
        hooks.wait(for: ["begun"])
        volume.kill()
        #expect(try CommandLines.haveGone(with: volume.mountPoint.description))
        #expect(try CommandLines.haveGone(with: slow.description))
        #expect(hooks.notes == ["begun"], "no other script was run")
      }
    }

    @Test func isNotThereWhenTheMountFails() throws {
      try with { volume, hooks in
        #expect(throws: MountFailure.self) { try volume.mount(["-o", "frobnicate,hooks=\(hooks.directory)"]) }
        #expect(try CommandLines.haveGone(with: volume.mountPoint.description))
        #expect(throws: MountFailure.self) { try volume.mount(["-o", "hooks=/nonexistent"]) }
        try volume.mount(["-o", "allow_other,hooks=off"])
        #expect(try runner(of: volume) == nil)
      }
    }

    /// It has nothing of the daemon and no key, only what a client has.
    @Test func hasNoSecrets() throws {
      try with { volume, hooks in
        try volume.mount(hooks.options())
        try volume.unlock(Volume.passcode)
        hooks.wait(for: ["post-unlock"])
        let process = try #require(try runner(of: volume))
        let directory = PathName("/proc/\(process)")
        func open() -> [String] {
          ((try? directory.appending("fd").names()) ?? []).map {
            let target = try? directory.appending("fd/\($0)").symbolicLinkTarget()
            return String(decoding: target ?? [], as: UTF8.self)
          }
        }
        // The script's output is read to the end.
        eventually { !open().contains { $0.hasPrefix("pipe:") } }
        // Standard error is the test's log. The rest are two connections to the daemon, each with its canceller.
        let targets = open()
        let log = volume.directory.appending("log.1").description
        #expect(Array(targets.prefix(3)) == ["/dev/null", "/dev/null", log])
        #expect(targets.dropFirst(3).allSatisfy { $0.hasPrefix("socket:") } && targets.count == 7, "\(targets)")
        #expect(try directory.appending("cwd").symbolicLinkTarget() == Array("/".utf8))
        let environment = String(
          decoding: try ProcessStatus.read(directory.appending("environ")), as: UTF8.self)
        let names = environment.split(separator: "\0").compactMap { $0.split(separator: "=").first }
        #expect(Set(names).isSubset(of: ["HOME", "XDG_RUNTIME_DIR", "TZ"]), "\(names)")

        let keys = try StoreKeys(of: volume)
        var needles = Needles()
        needles.add("the key of class A", keys.classKeys[.complete]!)
        needles.add("the passcode", Array(Volume.passcode.utf8))
        let found = try needles.find(in: process)
        #expect(found.count == 0 && found.searched > 1 << 20, "\(found.first ?? "")")
      }
    }

    /// In the background it logs where the daemon does.
    @Test func inTheBackground() throws {
      try with { volume, hooks in
        try hooks.add("post-unlock/a", "echo said")
        let log = volume.directory.appending("daemon.log")
        let result = try Command.run([
          "mount", volume.backing.description, volume.mountPoint.description, "--device-key",
          volume.deviceKey.description, "--passcode-file", volume.passcodeFile.description, "--unlock", "--log-file",
          log.description, "-o", "hooks=\(hooks.directory)",
        ])
        #expect(result.succeeded, "\(result.output)")
        hooks.wait(for: ["post-unlock"])
        let text = String(decoding: try log.contents(), as: UTF8.self)
        #expect(text.contains("output=said"), "\(text)")
        #expect(try Command.run(["unmount", volume.mountPoint.description]).succeeded)
        #expect(try CommandLines.haveGone(with: volume.mountPoint.description))
      }
    }

    /// What it logs, for programs.
    @Test func inJSON() throws {
      try with { volume, hooks in
        try hooks.add("post-unlock/a", "echo said")
        let log = volume.directory.appending("hooks.log")
        try volume.mount()
        let runner = try Program(
          [
            Command.path, "hooks", "--json", "--log-file", log.description, "--directory", hooks.directory.description,
            volume.mountPoint.description,
          ], output: volume.directory.appending("hooks.output"))
        defer {
          runner.send(SIGKILL)
          _ = runner.wait()
        }
        func lines() -> [Substring] {
          String(decoding: (try? log.contents()) ?? [], as: UTF8.self).split(separator: "\n")
        }
        // It may not listen yet.
        let isLogged = eventually {
          try? volume.lock()
          try? volume.unlock()
          // What it says is logged by a thread of its own, and in no order with its end.
          return lines().contains { $0.contains(#""message":"a hook has run""#) }
            && lines().contains { $0.contains(#""level":"info""#) && $0.contains(#""output":"said""#) }
        }
        #expect(isLogged, "\(lines())")
        #expect(lines().allSatisfy { $0.hasPrefix("{") && $0.hasSuffix("}") }, "\(lines())")
      }
    }

    /// A user's hooks are next to the user's device key, and run as the user.
    @Test(.enabled(if: Mounter.all.contains(.ordinaryUser), "an ordinary user cannot mount here"))
    func ofAnOrdinaryUser() throws {
      let configuration = { (directory: PathName) in ["XDG_CONFIG_HOME": directory.appending("config").description] }
      try Volume.store(environment: configuration) { volume in
        try volume.directory.appending("config").makeDirectory()
        let parent = volume.directory.appending("config/protectfs")
        try parent.makeDirectory()
        let hooks = try Hooks(in: parent)
        try hooks.add("post-unlock/a", "note $(id -u)")
        let owner = "65534:65534"
        try #require(try Program.run(["chown", "-R", owner, volume.directory.description]).succeeded)
        try hooks.add("post-unlock/b", "note root may add some")
        defer { TemporaryDirectory.remove(PathName("/tmp/protectfs-65534")) }
        try volume.mount(["-o", "grace=1"], through: Mounter.ordinaryUser.launcher)
        try volume.unlock()
        hooks.wait(for: ["65534", "root may add some"])
        #expect(calls_kill(volume.processID, SIGTERM) == 0)
        #expect(volume.waitForDaemon() == .exited(0))
        #expect(try CommandLines.haveGone(with: volume.mountPoint.description))
      }
    }

    // MARK: The command by itself

    @Test func theCommand() throws {
      try with { volume, hooks in
        let other = volume.directory.appending("other")
        try other.makeDirectory()
        let more = try Hooks(in: other)
        try more.add("post-lock/a", "note more")
        try volume.mount(["-o", "allow_other,grace=1,hooks=off"])
        try volume.unlock()
        let command = try Program(
          [
            Command.path, "hooks", "--directory", hooks.directory.description, "--directory",
            more.directory.description, volume.mountPoint.description,
          ], output: volume.directory.appending("output"))
        defer { command.send(SIGKILL) }
        // There is no event for its registration, which counts when a lock is announced.
        for _ in 0..<600 where hooks.notes.isEmpty {
          try volume.announceLock(gracePeriod: .seconds(60))
          usleep(100_000)
          try volume.unlock()
        }
        try volume.announceLock(gracePeriod: .milliseconds(200))
        try volume.wait(for: .locked)
        eventually { !more.notes.isEmpty }
        #expect(more.notes == ["more"])
        #expect(Array(hooks.notes.suffix(2)) == ["pre-lock", "post-lock"])
        try volume.unmount()
        #expect(command.wait() == .exited(0), "\(command.output)")
      }
    }

    @Test func theCommandIsToldToEnd() throws {
      try with { volume, hooks in
        let slow = try hooks.add("post-unlock/a", "note begun; exec sleep 600")
        try volume.mount(["-o", "allow_other,grace=1,hooks=off"])
        let command = try Program(
          [Command.path, "hooks", "--directory", hooks.directory.description, volume.mountPoint.description],
          output: volume.directory.appending("output"))
        defer { command.send(SIGKILL) }
        for _ in 0..<600 where hooks.notes.isEmpty {
          try volume.unlock()
          usleep(100_000)
          if hooks.notes.isEmpty { try volume.lock() }
        }
        // The script may have started just before the last lock.
        try volume.unlock()
        command.send(SIGTERM)
        #expect(command.wait() == .exited(0), "\(command.output)")
        #expect(try CommandLines.haveGone(with: slow.description))
        #expect(try volume.status().state == .unlocked)
      }
    }

    @Test func theCommandElsewhere() throws {
      try with { volume, hooks in
        let elsewhere = try Command.run(["hooks", "--directory", hooks.directory.description, "/"])
        #expect(elsewhere.ending == .exited(6), "\(elsewhere.output)")
        try volume.mount(["-o", "allow_other,hooks=off"])
        let none = try Command.run(["hooks", "--directory", "/nonexistent", volume.mountPoint.description])
        #expect(none.ending == .exited(1), "\(none.output)")
        volume.kill()
        let dead = try Command.run(["hooks", "--directory", hooks.directory.description, volume.mountPoint.description])
        #expect(dead.ending == .exited(13), "\(dead.output)")
      }
    }
  }
}
