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

    /// Returns how long it took.
    private func lock(_ volume: Volume) throws -> Duration {
      let began = ContinuousClock.now
      var connection = try volume.connection()
      try connection.lock(gracePeriod: .milliseconds(100), waiting: true)
      return .now - began
    }

    /// Its script is ended, and run again for the next lock, which follows at once.
    @Test func afterACancelledLock() throws {
      try with(30) { volume, hooks in
        try hooks.add("pre-lock/a", "note begun; sleep 2; note done")
        func expect(_ expected: [String]) {
          for _ in 0..<2000 where hooks.notes.count(where: { $0 != "post-unlock" }) < expected.count { usleep(5000) }
          #expect(hooks.notes.filter { $0 != "post-unlock" } == expected)
        }
        try volume.announceLock(gracePeriod: .seconds(20))
        expect(["begun"])
        try volume.unlock()
        let whole = ["begun", "done", "pre-lock", "post-lock"]
        for count in 1...2 {
          let time = try lock(volume)
          #expect(time >= .seconds(2) && time < .seconds(15), "\(time)")
          expect(["begun"] + Array(repeating: whole, count: count).flatMap(\.self))
          try volume.unlock()
        }
      }
    }

    /// Repeated, with the delay of one lock barely registered when the next lock is announced.
    @Test func afterManyCancelledLocks() throws {
      try with(30) { volume, hooks in
        try hooks.add("pre-lock/a", "sleep 1")
        for pause in 0..<10 as Range<UInt32> {
          try volume.announceLock(gracePeriod: .seconds(20))
          usleep(pause * 5000)
          try volume.unlock()
        }
        let time = try lock(volume)
        #expect(time >= .seconds(1) && time < .seconds(10), "\(time)")
        #expect(hooks.notes.last == "pre-lock" || hooks.notes.suffix(2) == ["pre-lock", "post-lock"], "\(hooks.notes)")
      }
    }

    @Test func afterAScriptThatOutlastedItsLock() throws {
      try with(6) { volume, hooks in
        try hooks.add("pre-lock/a", "trap '' TERM; while :; do sleep 0.1; done")
        let later = try hooks.add("pre-lock/b")
        #expect(try lock(volume) >= .seconds(6))
        hooks.wait(for: ["post-unlock", "post-lock"])
        #expect(volume.log.contains("was not run") && volume.log.contains("hook=\(later)"), "\(volume.log)")
        try hooks.add("pre-lock/a", "sleep 1; note slept")
        for _ in 0..<2 {
          try volume.unlock()
          let time = try lock(volume)
          #expect(time >= .seconds(1) && time < .seconds(6), "\(time)")
        }
        let next = ["post-unlock", "slept", "pre-lock b", "pre-lock", "post-lock"]
        hooks.wait(for: ["post-unlock", "post-lock"] + next + next)
      }
    }

    /// A lock does not wait for it, and the scripts before the lock run beside it.
    @Test func whileAnotherRuns() throws {
      try with(30) { volume, hooks in
        try hooks.add("post-unlock/z", "note slow; sleep 8; note awake")
        _ = try lock(volume)
        try volume.unlock()
        var expected = ["post-unlock", "pre-lock", "post-lock", "post-unlock", "slow"]
        hooks.wait(for: expected)
        let time = try lock(volume)
        expected.append("pre-lock")
        #expect(time < .seconds(7) && hooks.notes == expected, "\(time), \(hooks.notes)")
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
        _ = try lock(volume)
        hooks.wait(for: ["post-unlock", "pre-lock", "post-lock"])
        #expect(try CommandLines.haveGone(with: script.description))
        #expect(volume.log.split(separator: " output=").count - 1 == 200)
        #expect(volume.log.split(separator: "prints more than is logged").count - 1 == 1, "\(volume.log)")
      }
    }
  }
}
