import CSystemCalls
import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// Clients that delay a lock: until they release it or disconnect, and never beyond their time.
  @Suite struct LockDelayTests {
    private static let bound = "allow_other,grace=1,lock_delay=2"
    private static let long = "allow_other,grace=1,lock_delay=60"

    /// Long after a grace period of 100 ms, and long before any bound.
    private func waitBeyondTheGracePeriod() { usleep(500_000) }

    @Test func untilItIsReleased() throws {
      try Volume.with(["-o", Self.long], defaultClass: .complete) { volume in
        let file = volume.path("file")
        try file.write("open")
        var delay = try volume.connection().registerLockDelay()
        #expect(try volume.status().delayingClients == 0)
        try volume.announceLock(gracePeriod: .milliseconds(100))
        #expect(try delay.waitForAnnouncement() == .seconds(60))
        waitBeyondTheGracePeriod()
        let status = try volume.status()
        #expect(status.state == .gracePeriod && status.delayingClients == 1)
        #expect((40...60).contains(status.secondsUntilRevoked ?? 0))
        #expect(try file.contents() == Array("open".utf8))
        let report = try Command.run(["status", volume.mountPoint.description])
        #expect(report.output.contains("1 client that delays the lock"), "\(report.output)")
        delay.release()
        try volume.wait(for: .locked)
        #expect(throws: Errno.permissionDenied) { try file.contents() }
        #expect(try volume.status().delayingClients == 0)
      }
    }

    @Test func neverBeyondTheBound() throws {
      try Volume.with(["-o", Self.bound]) { volume in
        var delay = try volume.connection().registerLockDelay()
        let began = ContinuousClock.now
        var connection = try volume.connection()
        try connection.lock(gracePeriod: .milliseconds(10), waiting: true)
        #expect(ContinuousClock.now - began >= .seconds(2))
        #expect(try volume.status().state == .locked)
        #expect(try delay.waitForAnnouncement() == .seconds(2), "it was told when the lock was announced")
      }
    }

    @Test(.enabled(if: PathName("/usr/bin/python3").exists, "python3 is not installed"))
    func aKilledClientHoldsNothingBack() throws {
      try Volume.with(["-o", Self.long]) { volume in
        let socket = "/run/protectfs/" + ControlSocket.name(forMountPoint: volume.mountPoint.description)
        // Registers, reports that, and waits, all in one process.
        let script = """
          import socket, sys, time
          s = socket.socket(socket.AF_UNIX)
          s.connect(sys.argv[1])
          s.sendall(b'{"method":"org.protectfs.Daemon.DelayLock","more":true}\\0')
          s.recv(100)
          print("registered", flush=True)
          time.sleep(120)
          """
        let client = try Program(
          ["/usr/bin/python3", "-c", script, socket], output: volume.directory.appending("client"))
        defer { client.send(SIGKILL) }
        while client.output.isEmpty && client.poll() == nil { usleep(2000) }
        try volume.announceLock(gracePeriod: .milliseconds(100))
        waitBeyondTheGracePeriod()
        #expect(try volume.status().delayingClients == 1)
        client.send(SIGKILL)
        try volume.wait(for: .locked)
      }
    }

    @Test func notALockAtOnce() throws {
      try Volume.with(["-o", Self.long]) { volume in
        var delay = try volume.connection().registerLockDelay()
        try volume.lock()
        #expect(try volume.status().state == .locked)
        try volume.unlock()
        // It is still registered. A lock without a grace period also ends an announced one.
        try volume.announceLock(gracePeriod: .milliseconds(100))
        #expect(try delay.waitForAnnouncement() == .seconds(60))
        waitBeyondTheGracePeriod()
        let result = try Command.run(["lock", "--now", volume.mountPoint.description])
        #expect(result.succeeded, "\(result.output)")
        #expect(try volume.status().state == .locked)
      }
    }

    @Test func cancelledByAnUnlock() throws {
      try Volume.with(["-o", Self.long]) { volume in
        var delay = try volume.connection().registerLockDelay()
        try volume.announceLock(gracePeriod: .milliseconds(100))
        _ = try delay.waitForAnnouncement()
        waitBeyondTheGracePeriod()
        try volume.unlock()
        let status = try volume.status()
        #expect(status.state == .unlocked && status.delayingClients == 0)
        // The next lock does not wait for it.
        var connection = try volume.connection()
        try connection.lock(gracePeriod: .milliseconds(100), waiting: true)
        #expect(try volume.status().state == .locked)
      }
    }

    @Test func twoClients() throws {
      try Volume.with(["-o", Self.long]) { volume in
        let first = try volume.connection().registerLockDelay()
        let second = try volume.connection().registerLockDelay()
        try volume.announceLock(gracePeriod: .milliseconds(100))
        let late = try volume.connection().registerLockDelay()
        #expect(try volume.status().delayingClients == 2)
        first.release()
        waitBeyondTheGracePeriod()
        let status = try volume.status()
        #expect(status.state == .gracePeriod && status.delayingClients == 1)
        second.release()
        try volume.wait(for: .locked)
        late.release()
      }
    }

    @Test func nobodyMay() throws {
      try Volume.with(["-o", "allow_other,lock_delay=0"]) { volume in
        var delay = try volume.connection().registerLockDelay()
        var connection = try volume.connection()
        try connection.lock(gracePeriod: .milliseconds(100), waiting: true)
        #expect(try delay.waitForAnnouncement() == .milliseconds(100))
        #expect(try volume.status().state == .locked)
      }
    }

    /// The directory of the socket is closed to others. A user who gets past it, here by CAP_DAC_OVERRIDE, gets no
    /// answer.
    @Test(
      .enabled(
        if: Program.isInstalled("setpriv") && PathName("/usr/bin/python3").exists, "setpriv or python3 is not installed"
      ))
    func anotherUserCannot() throws {
      try Volume.with(["-o", Self.long]) { volume in
        let socket = "/run/protectfs/" + ControlSocket.name(forMountPoint: volume.mountPoint.description)
        let script = """
          import socket, sys
          s = socket.socket(socket.AF_UNIX)
          try:
              s.connect(sys.argv[1])
              s.sendall(b'{"method":"org.protectfs.Daemon.DelayLock","more":true}\\0')
              print("closed" if s.recv(100) == b'' else "answered")
          except (BrokenPipeError, ConnectionResetError):
              print("closed")
          except PermissionError:
              print("not reached")
          """
        let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        let python = ["/usr/bin/python3", "-c", script, socket]
        #expect(try Program.run(user + python).output == "not reached\n")
        let override = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
        #expect(try Program.run(user + override + python).output == "closed\n")
        var connection = try volume.connection()
        try connection.lock(gracePeriod: .milliseconds(100), waiting: true)
        #expect(try volume.status().state == .locked)
      }
    }
  }
}
