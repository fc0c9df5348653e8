import CSystemCalls
import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// Scripts that run at a lock and an unlock, beside the daemon.
  @Suite struct HookTests {
    private func with(
      _ options: String = "allow_other,grace=1,lock_delay=60", _ body: (Volume, Hooks) throws -> Void
    ) throws {
      try Volume.store(environment: { _ in ["PROTECTFS_TEST": "not for scripts"] }) { volume in
        let hooks = try Hooks(in: volume.directory)
        try hooks.addNotes()
        try volume.mount(hooks.options(options))
        try volume.unlock()
        hooks.wait(for: ["post-unlock"])
        try body(volume, hooks)
      }
    }

    private func lock(_ volume: Volume, gracePeriod: Duration = .milliseconds(100)) throws {
      var connection = try volume.connection()
      try connection.lock(gracePeriod: gracePeriod, waiting: true)
    }

    @Test func inTheOrderOfNames() throws {
      try with { volume, hooks in
        for name in ["b", "10", "9", "B", ".hidden", "a_-.z"] { try hooks.add("post-lock/\(name)") }
        try hooks.add("post-lock/editor~")
        try hooks.add("post-lock/data", mode: 0o644)
        let link = hooks.directory.appending("post-lock.d/link")
        try link.makeSymbolicLink(to: "b")
        try hooks.directory.appending("post-lock.d/directory").makeDirectory()
        try lock(volume)
        hooks.wait(
          for: ["post-unlock", "pre-lock"] + [".hidden", "10", "9", "B", "a_-.z", "b"].map { "post-lock \($0)" }
            + ["post-lock"])
      }
    }

    @Test func whatScriptsFind() throws {
      try with { volume, hooks in
        let script = """
          note "$(env | grep -v -e ^PWD= -e ^SHLVL= -e ^_= | sort | tr '\\n' ';')"
          # Without a pipe: the shell would have one or both of its ends open.
          ls /proc/$$/fd >"$0.descriptors"
          note "$(pwd) $# $(readlink /proc/$$/fd/0) $(grep -c '^[3-9]$' "$0.descriptors") $(grep SigBlk /proc/$$/status)"
          """
        for event in ["pre-lock", "post-lock", "post-unlock"] {
          try hooks.directory.appending("\(event).d/note").unlink()
          try hooks.add("\(event)/show", script)
        }
        try lock(volume, gracePeriod: .milliseconds(500))
        try volume.unlock()
        func expected(_ event: String, _ classes: String) -> String {
          let home = unsafe getenv("HOME").map { unsafe String(cString: $0) } ?? "/root"
          return "HOME=\(home);PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin;"
            + "PROTECTFS_CLASSES=\(classes);PROTECTFS_EVENT=\(event);PROTECTFS_MOUNT_POINT=\(volume.mountPoint);"
        }
        let process = "/ 0 /dev/null 0 SigBlk:\t0000000000000000"
        eventually { hooks.notes.count >= 7 }
        let notes = hooks.notes
        try #require(notes.count == 7)
        // How much of the time is left depends on the machine. The grace period is half a second.
        let parts = notes[1].split(separator: "PROTECTFS_SECONDS=").map(String.init)
        #expect(parts[0] == expected("pre-lock", "A B"))
        let seconds = Double(parts.count > 1 ? String(parts[1].dropLast()) : "")
        #expect((1...60).contains(seconds ?? 0), "\(notes[1])")
        #expect(notes[3] == expected("post-lock", "A B"))
        #expect(notes[5] == expected("post-unlock", "A B"))
        for index in [2, 4, 6] { #expect(notes[index] == process) }
      }
    }

    /// The scripts have the time of a delay: what they read is not locked yet.
    @Test func theLockWaitsForScripts() throws {
      try with { volume, hooks in
        let file = volume.path("file")
        try file.write("secret\n")
        try file.setProtectionClass(.complete)
        try hooks.add("pre-lock/a", "note $PROTECTFS_SECONDS; sleep 1; gate")
        try hooks.add("pre-lock/b", "note $PROTECTFS_SECONDS; note \"$(cat '\(file)')\"")
        try hooks.directory.appending("pre-lock.d/note").unlink()
        try hooks.directory.appending("post-unlock.d/note").unlink()
        // The next lock waits too.
        for count in 1...2 {
          let call = try hooks.lockAtGate(of: volume, gracePeriod: .milliseconds(50), notes: count * 4 - 2)
          try hooks.openGate()
          // As soon as they are done, long before the time ends.
          #expect(try call.result(seconds: 40) == nil)
          eventually { hooks.notes.count > count * 4 }
          let notes = hooks.notes
          try #require(notes.count == count * 4 + 1, "\(notes)")
          let seconds = notes[(count * 4 - 3)...(count * 4 - 2)].map { Double($0) ?? 0 }
          #expect(60 >= seconds[0] && seconds[0] > seconds[1] && seconds[1] > 0, "what is left of a minute")
          #expect(notes[(count * 4 - 1)...] == ["secret", "post-lock"])
          try volume.unlock()
          try hooks.closeGate()
        }
      }
    }

    @Test func tooSlowScriptsAreEnded() throws {
      try with("allow_other,grace=1,lock_delay=5") { volume, hooks in
        let slow = try hooks.add("pre-lock/a", "trap 'note asked' TERM; note begun; while :; do sleep 0.1; done")
        try hooks.add("pre-lock/b")
        let began = ContinuousClock.now
        try lock(volume)
        #expect(ContinuousClock.now - began >= .seconds(5))
        hooks.wait(for: ["post-unlock", "begun", "asked", "post-lock"])
        #expect(try CommandLines.haveGone(with: slow.description))
        #expect(volume.log.contains("takes too long") && volume.log.contains("signal=9"), "\(volume.log)")
      }
    }

    @Test func aFailureIsLoggedAndTheOthersRun() throws {
      try with { volume, hooks in
        try hooks.add("pre-lock/a", "echo first line; echo second >&2; exit 3")
        try hooks.add("pre-lock/b", "exec nonexistent")
        try hooks.directory.appending("pre-lock.d/c").write("#!/nonexistent/interpreter\n")
        try hooks.directory.appending("pre-lock.d/c").setMode(0o755)
        try hooks.add("pre-lock/d", "kill -9 $$")
        try lock(volume)
        hooks.wait(for: ["post-unlock", "pre-lock", "post-lock"])
        let expected = [
          "status=3", "output=first line", "output=second", "status=127", "could not be started", "signal=9",
        ]
        for text in expected {
          #expect(volume.log.contains(text), "\(text): \(volume.log)")
        }
      }
    }

    @Test func whatOthersCouldWriteIsNotRun() throws {
      try with { volume, hooks in
        try hooks.add("post-lock/a", mode: 0o775)
        try hooks.add("post-lock/b", mode: 0o757)
        try hooks.add("post-lock/c").setOwner(user: 4321, group: 0)
        try lock(volume)
        hooks.wait(for: ["post-unlock", "pre-lock", "post-lock"])
        for name in ["a", "b", "c"] { #expect(volume.log.contains("path=\(hooks.directory)/post-lock.d/\(name)")) }

        func warnings(_ text: String) -> Int {
          volume.log.split(separator: text, omittingEmptySubsequences: false).count - 1
        }
        func expectWarning(_ path: PathName, of events: Int = 1) {
          // One that is late for a lock is passed over.
          let isThere = eventually { warnings("path=\(path)\n") + warnings("hooks were not run before") >= events }
          #expect(isThere)
        }
        try hooks.directory.appending("post-unlock.d").setMode(0o777)
        try volume.unlock()
        expectWarning(hooks.directory.appending("post-unlock.d"))
        try hooks.directory.setOwner(user: 4321, group: 0)
        try lock(volume)
        // What follows is not to be taken for it.
        expectWarning(hooks.directory, of: 2)
        try hooks.directory.setOwner(user: 0, group: 0)
        try hooks.directory.appending("post-unlock.d").setMode(0o755)
        try volume.directory.setMode(0o777)
        try volume.unlock()
        expectWarning(volume.directory)
        #expect(hooks.notes == ["post-unlock", "pre-lock", "post-lock"])
        // In a sticky directory other users can replace only their own files.
        try volume.directory.setMode(0o1777)
        try hooks.add("post-lock/c").setOwner(user: 0, group: 0)
        try volume.lock()
        hooks.wait(for: ["post-unlock", "pre-lock", "post-lock", "post-lock c", "post-lock"])
      }
    }

    @Test func aCancelledLock() throws {
      try with { volume, hooks in
        try volume.announceLock(gracePeriod: .seconds(600))
        hooks.wait(for: ["post-unlock", "pre-lock"])
        try volume.unlock()
        hooks.wait(for: ["post-unlock", "pre-lock", "post-unlock"])
      }
    }

    /// There is no time before such a lock.
    @Test func aLockAtOnce() throws {
      try with("allow_other,grace=1,lock_delay=60") { volume, hooks in
        try volume.lock()
        hooks.wait(for: ["post-unlock", "post-lock"])
        try volume.unlock()
        hooks.wait(for: ["post-unlock", "post-lock", "post-unlock"])
        // A lock that comes while scripts run ends them.
        try hooks.add("pre-lock/a", "note begun; exec sleep 600")
        try volume.announceLock(gracePeriod: .milliseconds(100))
        hooks.wait(for: ["post-unlock", "post-lock", "post-unlock", "begun"])
        try volume.lock()
        hooks.wait(for: ["post-unlock", "post-lock", "post-unlock", "begun", "post-lock"])
      }
    }
  }
}
