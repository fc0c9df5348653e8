import CSystemCalls
import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// Hooks while locks and unlocks follow each other faster than scripts end: each lock waits for its own scripts.
  @Suite struct HookTimeTests {
    private func with(_ lockDelay: Int, _ body: (Volume, Hooks) throws -> Void) throws {
      try Volume.store { volume in
        let hooks = try Hooks(in: volume.directory)
        try hooks.addNotes()
        try volume.mount(hooks.options("allow_other,grace=1,lock_delay=\(lockDelay)"))
        try volume.unlock()
        hooks.wait(for: ["post-unlock"])
        try body(volume, hooks)
      }
    }

    private func lock(_ volume: Volume) throws {
      var connection = try volume.connection()
      try connection.lock(gracePeriod: .milliseconds(100), waiting: true)
    }

    /// Its script is ended, and run again for the next lock, which follows at once.
    @Test func afterACancelledLock() throws {
      try with(60) { volume, hooks in
        try hooks.directory.appending("post-unlock.d/note").unlink()
        try hooks.add("pre-lock/a", "note begun; gate; note done")
        try volume.announceLock(gracePeriod: .seconds(600))
        var expected = ["post-unlock", "begun"]
        hooks.wait(for: expected)
        try volume.unlock()
        for _ in 0..<2 {
          let call = try hooks.lockAtGate(of: volume, notes: expected.count + 1)
          try hooks.openGate()
          // As soon as it is done, long before the time ends.
          #expect(try call.result(seconds: 40) == nil)
          expected += ["begun", "done", "pre-lock", "post-lock"]
          hooks.wait(for: expected)
          try volume.unlock()
          try hooks.closeGate()
        }
      }
    }

    /// Repeated, with the delay of one lock barely registered when the next lock is announced.
    @Test func afterManyCancelledLocks() throws {
      try with(60) { volume, hooks in
        try hooks.directory.appending("post-unlock.d/note").unlink()
        try hooks.add("pre-lock/a", "note begun; gate")
        for pause in 0..<10 as Range<UInt32> {
          try volume.announceLock(gracePeriod: .seconds(600))
          usleep(pause * 5000)
          try volume.unlock()
        }
        // Who runs the hooks is there for the next lock when it has ended the scripts of the last; a lock that comes
        // before that does not wait for it.
        var held: PendingCall?
        for _ in 0..<100 where held == nil {
          held = try hooks.lockIfHeld(of: volume, gracePeriod: .milliseconds(300))
          if held == nil { try volume.unlock() }
        }
        let before = hooks.notes.count
        try hooks.openGate()
        #expect(try #require(held).result(seconds: 40) == nil)
        eventually { hooks.notes.count >= before + 2 }
        #expect(hooks.notes.suffix(2) == ["pre-lock", "post-lock"], "\(hooks.notes)")
      }
    }

    @Test func afterAScriptThatOutlastedItsLock() throws {
      try with(8) { volume, hooks in
        try hooks.add("pre-lock/a", "trap '' TERM; while :; do sleep 0.1; done")
        let later = try hooks.add("pre-lock/b")
        let began = ContinuousClock.now
        try lock(volume)
        #expect(ContinuousClock.now - began >= .seconds(8))
        hooks.wait(for: ["post-unlock", "post-lock"])
        #expect(volume.log.contains("was not run") && volume.log.contains("hook=\(later)"), "\(volume.log)")
        try hooks.add("pre-lock/a", "sleep 0.5; note slept")
        var expected = ["post-unlock", "post-lock"]
        for _ in 0..<2 {
          try volume.unlock()
          hooks.wait(for: expected + ["post-unlock"])
          try lock(volume)
          expected += ["post-unlock", "slept", "pre-lock b", "pre-lock"]
          #expect(Array(hooks.notes.prefix(expected.count)) == expected, "they had ended when the lock had")
          expected.append("post-lock")
          hooks.wait(for: expected)
        }
      }
    }

    /// A lock does not wait for it, and the scripts before the lock run beside it.
    @Test func whileAnotherRuns() throws {
      try with(60) { volume, hooks in
        try hooks.add("post-unlock/z", "note slow; gate; note awake")
        try lock(volume)
        try volume.unlock()
        var expected = ["post-unlock", "pre-lock", "post-lock", "post-unlock", "slow"]
        hooks.wait(for: expected)
        try lock(volume)
        expected.append("pre-lock")
        #expect(hooks.notes == expected)
        try hooks.openGate()
        hooks.wait(for: expected + ["awake", "post-lock"])
      }
    }

    /// The output of what a script has left running is discarded soon after the script's end. No more than some lines
    /// are logged.
    @Test func whatGoesOnPrinting() throws {
      try with(10) { volume, hooks in
        let script = try hooks.add("post-lock/a", "seq 300; (while echo more; do sleep 0.1; done) &")
        defer {
          for process in (try? CommandLines.processes(with: script.description)) ?? [] { kill(process, SIGKILL) }
        }
        try lock(volume)
        hooks.wait(for: ["post-unlock", "pre-lock", "post-lock"])
        #expect(try CommandLines.haveGone(with: script.description))
        #expect(volume.log.split(separator: " output=").count - 1 == 200)
        #expect(volume.log.split(separator: "prints more than is logged").count - 1 == 1, "\(volume.log)")
      }
    }
  }
}
