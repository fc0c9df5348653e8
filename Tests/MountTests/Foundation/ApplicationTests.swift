import DataProtection
import Foundation
import ProtectfsIO
import SystemPackage
import Testing

extension MountTests {
  /// UIKit's interface, in programs of their own.
  @Suite struct ApplicationTests {
    /// A program that observes UIKit's notifications.
    private struct Probe {
      private let program: Program
      private let volume: Volume

      init(_ volume: Volume, _ word: String = "notifications", user: UInt32 = 0) throws {
        self.volume = volume
        program = try Program(
          [Command.beside("FoundationProbe"), "\(user)", word, "600"],
          environment: ["PROTECTFS_MOUNT_POINT": volume.mountPoint.description],
          output: volume.directory.appending("notifications"))
      }

      /// Waits until it has printed exactly these lines.
      func expect(_ lines: String..., location: SourceLocation = #_sourceLocation) throws {
        try expect(lines, location: location)
      }

      func expect(_ lines: [String], location: SourceLocation = #_sourceLocation) throws {
        eventually { self.lines.count >= lines.count }
        #expect(self.lines == lines, sourceLocation: location)
      }

      /// The same without what it says then of the availability, which cannot always be read without a descriptor.
      func expect(events: [String], location: SourceLocation = #_sourceLocation) throws {
        eventually { self.lines.count >= events.count }
        #expect(lines.map { $0.split(separator: ", ").first.map(String.init) } == events, sourceLocation: location)
      }

      /// What it has printed, without the warning.
      private var lines: [String] {
        program.output.split(separator: "\n").map(String.init).filter { !$0.contains(Self.warning) }
      }

      private static let warning = "The main queue does not run"

      /// How often it has warned that its main queue does not run.
      var warnings: Int { program.output.split(separator: "\n").count { $0.contains(Self.warning) } }

      /// Waits until it delays locks: it has connected for that and for events, and neither it nor the daemon has
      /// anything to do.
      func awaitRegistration(location: SourceLocation = #_sourceLocation) throws {
        let sockets = { try Set(Descriptors.of(program.identifier).filter { $0.hasPrefix("socket:") }) }
        #expect(try eventually { try sockets().count >= 2 }, sourceLocation: location)
        sleepsEventually(program.identifier, volume.processID)
      }

      func send(_ signal: CInt) { program.send(signal) }

      /// Has a program go on that waits for that: to run its main loop, or to use up its descriptors.
      func tell() { send(SIGUSR1) }

      func end() {
        program.send(SIGKILL)
        _ = program.wait(seconds: 5)
      }
    }

    @Test func notificationsArePosted() throws {
      try Volume.with(["-o", "allow_other,lock_delay=30"]) { volume in
        let probe = try Probe(volume)
        defer { probe.end() }
        try probe.expect("at first, true")
        try probe.awaitRegistration()
        // The lock waits for it.
        try volume.announceLock(gracePeriod: .milliseconds(300))
        try volume.wait(for: .locked)
        try probe.expect("at first, true", "will become unavailable, true")
        try volume.unlock()
        try probe.expect("at first, true", "will become unavailable, true", "did become available, true")
      }
    }

    /// A user who may use the mount, but not query its daemon, also learns of changes.
    @Test func othersHearOfChanges() throws {
      try Volume.with(unlocked: false) { volume in
        try volume.mountPoint.setMode(0o755)
        try volume.unlock()
        try volume.lock()
        let probe = try Probe(volume, user: 65534)
        defer { probe.end() }
        try probe.expect("at first, false")
        try volume.unlock()
        try probe.expect("at first, false", "did become available, true")
        // Of announcements too.
        try volume.announceLock(gracePeriod: .seconds(5))
        try probe.expect("at first, false", "did become available, true", "will become unavailable, true")
        try volume.unlock()
        try probe.expect(
          "at first, false", "did become available, true", "will become unavailable, true",
          "did become available, true")
      }
    }

    /// A main queue that does not run delays no lock, and later notifications come all the same.
    @Test func aMainThreadWithoutALoop() throws {
      try Volume.with(["-o", "allow_other,lock_delay=60"]) { volume in
        let probe = try Probe(volume, "unserved")
        defer { probe.end() }
        try probe.expect("at first, true")
        try probe.awaitRegistration()
        for _ in 0..<2 {
          try volume.announceLock(gracePeriod: .milliseconds(300))
          // Long before a delay would end by itself.
          let end = ContinuousClock.now + .seconds(40)
          while try volume.status().state == .gracePeriod, .now < end { usleep(2000) }
          #expect(try volume.status().state == .locked)
          try volume.unlock()
        }
        #expect(probe.warnings == 1)
        probe.tell()
        try probe.expect("at first, true", "will become unavailable, true", "did become available, true")
      }
    }

    /// The queue of an observer is not waited for from itself, which would be for ever.
    @Test func aMainQueueOnOtherThreads() throws {
      try Volume.with(["-o", "allow_other,lock_delay=30"]) { volume in
        let probe = try Probe(volume, "dispatch")
        defer { probe.end() }
        var lines = ["at first, true", "at first, true"]
        try probe.expect(lines)
        try probe.awaitRegistration()
        for _ in 0..<2 {
          try volume.announceLock(gracePeriod: .milliseconds(300))
          try volume.wait(for: .locked)
          try volume.unlock()
          lines += [String](repeating: "will become unavailable, true, elsewhere", count: 2)
          lines += [String](repeating: "did become available, true, elsewhere", count: 2)
          try probe.expect(lines)
        }
      }
    }

    /// One that the program has set, and one that `@main` before its class would have made.
    @Test(arguments: [("delegate", "at first, true"), ("launch", "launched, true")])
    func theDelegateIsCalled(word: String, first: String) throws {
      try Volume.with(["-o", "allow_other,lock_delay=30"]) { volume in
        let probe = try Probe(volume, word)
        defer { probe.end() }
        try probe.expect(first)
        try probe.awaitRegistration()
        try volume.announceLock(gracePeriod: .milliseconds(300))
        try volume.wait(for: .locked)
        try volume.unlock()
        try probe.expect(first, "delegate: will become unavailable, true", "delegate: did become available")
      }
    }

    /// An observer with a queue of its own that does not run costs the others nothing but the time of the lock.
    @Test func aSuspendedQueue() throws {
      try Volume.with(["-o", "allow_other,lock_delay=2"]) { volume in
        let probe = try Probe(volume, "suspended")
        defer { probe.end() }
        try probe.expect("at first, true")
        try probe.awaitRegistration()
        for count in 1...2 {
          let began = ContinuousClock.now
          try volume.announceLock(gracePeriod: .milliseconds(300))
          try volume.wait(for: .locked)
          #expect(ContinuousClock.now - began > .seconds(1), "the lock waits for the queue")
          try volume.unlock()
          try probe.expect(
            ["at first, true"]
              + (0..<count).flatMap { _ in ["will become unavailable, true", "did become available, true"] })
        }
      }
    }

    /// A program that was stopped delays the lock for a bounded time, and hears of it later.
    @Test func aStoppedProgram() throws {
      try Volume.with(["-o", "allow_other,lock_delay=2"]) { volume in
        let probe = try Probe(volume)
        defer { probe.end() }
        try probe.expect("at first, true")
        try probe.awaitRegistration()
        probe.send(SIGSTOP)
        try volume.announceLock(gracePeriod: .milliseconds(300))
        try volume.wait(for: .locked)
        try volume.unlock()
        probe.send(SIGCONT)
        try probe.expect("at first, true", "will become unavailable, true", "did become available, true")
      }
    }

    /// What has its connections needs no more descriptors.
    @Test func withoutDescriptors() throws {
      try Volume.with(["-o", "allow_other,lock_delay=30"]) { volume in
        let probe = try Probe(volume, "exhausted")
        defer { probe.end() }
        try probe.expect("at first, true")
        try probe.awaitRegistration()
        probe.tell()
        var events = ["at first", "no more descriptors"]
        try probe.expect(events: events)
        for _ in 0..<2 {
          try volume.announceLock(gracePeriod: .milliseconds(500))
          try volume.wait(for: .locked)
          try volume.unlock()
          events += ["will become unavailable", "did become available"]
          try probe.expect(events: events)
        }
      }
    }

    /// A mount that comes later, and another after the daemon was killed.
    @Test func aMountThatComesLater() throws {
      try Volume.store { volume in
        let probe = try Probe(volume)
        defer { probe.end() }
        var lines = ["at first, false"]
        try probe.expect(lines)
        for _ in 0..<2 {
          try volume.mount()
          try volume.unlock()
          lines.append("did become available, true")
          try probe.expect(lines)
          volume.kill()
          try volume.mountPoint.unmount(isLazy: true)
        }
      }
    }

    @Test func namesStartNothing() throws {
      let result = try Program.run([Command.beside("FoundationProbe"), "0", "names", "0"])
      #expect(result.output == "false, 1 thread\n")
    }

    /// Where none is chosen, all of the user's mounts count.
    @Test(.enabled(if: MountedFileSystem.all().isEmpty, "there are other mounts"))
    func severalMounts() throws {
      func available() throws -> String {
        try Program.run(["sh", "-c", "echo is | '\(Command.beside("FoundationProbe"))' 0 available 0"]).output
      }
      #expect(try available() == "is false\n")
      try Volume.with { first in
        #expect(try available() == "is true\n")
        try Volume.with { second in
          #expect(try available() == "is true\n")
          try second.lock()
          #expect(try available() == "is false\n")
          try second.unlock()
          try first.lock()
          #expect(try available() == "is false\n")
        }
      }
    }
  }
}
