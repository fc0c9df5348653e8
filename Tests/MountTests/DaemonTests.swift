import CSystemCalls
import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import TestVectors
import Testing

extension MountTests {
  /// The life of a daemon: killed, asked to end, unmounted while busy, and contacted by strangers.
  @Suite struct DaemonTests {
    @Test func killed() throws {
      try Volume.with { volume in
        let file = volume.path("file")
        try file.write("kept")
        try OpenFile(file, O_RDWR).synchronize()
        volume.kill()
        try volume.waitForEndOfConnection()
        #expect(throws: Errno.socketNotConnected) { try volume.mountPoint.names() }
        #expect(throws: Errno.socketNotConnected) { try OpenFile(file, O_RDONLY) }
        #expect(throws: ControlError.self) { try volume.status() }
        let status = try Command.run(["status", volume.mountPoint.description])
        #expect(status.ending == .exited(13) && status.output.contains("unmount"), "\(status.output)")

        // Mounting again cleans up.
        try volume.mount()
        try volume.unlock(Volume.passcode)
        #expect(try file.contents() == Array("kept".utf8))
      }
    }

    /// The kernel still has the root's attributes, so stat(2) of the mount point does not show that its daemon is gone.
    @Test func killedUnseen() throws {
      try Volume.with { volume in
        _ = try volume.mountPoint.status()
        volume.kill()
        #expect(failure { () throws(Errno) in _ = try volume.mountPoint.status() } == nil)
        try volume.mount()
        try volume.unlock(Volume.passcode)
      }
    }

    /// libfuse and the kernel do not agree on it, or know no such option.
    @Test(arguments: [("max_read=4096", CInt(1), "do not agree"), ("no_such_option", 64, "does not take")])
    func whatIsNotAgreedOnIsNoMount(_ option: String, _ status: CInt, _ reason: String) throws {
      try Volume.store { volume in
        let failure = try #require(throws: MountFailure.self) { try volume.mount(["-o", option]) }
        #expect(failure.ending == .exited(status) && failure.output.contains(reason), "\(failure.output)")
        #expect(!volume.isMounted)
        let result = try Command.run([
          "mount", volume.backing.description, volume.mountPoint.description, "--device-key",
          volume.deviceKey.description, "-o", option,
        ])
        #expect(result.ending == .exited(status) && result.output.contains(reason), "\(result.output)")
        #expect(!volume.isMounted)
      }
    }

    @Test func unmountCleansUpAfterADeadDaemon() throws {
      try Volume.with { volume in
        volume.kill()
        let result = try Command.run(["unmount", volume.mountPoint.description])
        #expect(result.succeeded, "\(result.output)")
        #expect(!volume.isMounted)
        try volume.mount()
      }
    }

    @Test func toldToEndWhileBusy() throws {
      try Volume.with { volume in
        let file = volume.path("file")
        let open = try OpenFile(file, O_RDWR | O_CREAT)
        try open.write(pattern(1, count: 100_000), at: 0)
        #expect(throws: Errno.resourceBusy) { try volume.unmount() }
        let busy = try Command.run(["unmount", volume.mountPoint.description])
        #expect(busy.ending == .exited(19), "\(busy.output)")
        #expect(calls_kill(volume.processID, SIGTERM) == 0)
        #expect(volume.waitForDaemon() == .exited(0))
        #expect(!volume.isMounted)
        #expect(failure { () throws(Errno) in _ = try open.read(at: 0, count: 1) } != nil)
        try volume.mount()
        try volume.unlock(Volume.passcode)
        #expect(try file.contents() == pattern(1, count: 100_000), "what was written is on disk")
      }
    }

    @Test func inTheBackground() throws {
      try Volume.store { volume in
        let result = try Command.run(
          [
            "mount", volume.backing.description, volume.mountPoint.description, "--device-key",
            volume.deviceKey.description, "--passcode-file", volume.passcodeFile.description, "--unlock", "--log-file",
            volume.directory.appending("daemon.log").description,
          ] + Volume.optionsOfAll)
        #expect(result.succeeded, "\(result.output)")
        #expect(try volume.status().state == .unlocked)
        try volume.path("file").write("x")
        let unmounted = try Command.run(["unmount", volume.mountPoint.description])
        #expect(unmounted.succeeded, "\(unmounted.output)")
        #expect(!volume.isMounted)
      }
    }

    @Test func readOnly() throws {
      try Volume.with { volume in
        try volume.path("file").write("x")
        try volume.remount(["-o", "allow_other,ro"])
        try volume.unlock(Volume.passcode)
        #expect(try volume.path("file").contents() == Array("x".utf8))
        #expect(throws: Errno.readOnlyFileSystem) { try volume.path("file").write("y") }
        #expect(throws: Errno.readOnlyFileSystem) { try volume.path("file").setProtectionClass(.none) }
        #expect(throws: Errno.readOnlyFileSystem) { try volume.path("new").makeDirectory() }
        #expect(throws: ControlError.self) {
          var connection = try volume.connection()
          let (old, new) = (Array(Volume.passcode.utf8), Array("new".utf8))
          try unsafe old.withBytes { (old) throws(ControlError) in
            try unsafe new.withBytes { (new) throws(ControlError) in
              try unsafe connection.changePasscode(from: .passcode(old), to: new)
            }
          }
        }
      }
    }

    /// Invalid data on the control socket closes the connection, and the daemon continues.
    @Test func hostileMessages() throws {
      try Volume.with { volume in
        let socket = "/run/protectfs/" + ControlSocket.name(forMountPoint: volume.mountPoint.description)
        let status = try PathName(socket).status()
        #expect(status.mode & 0o777 == 0o600 && status.user == 0)
        var random = RepeatableGenerator(seed: 3)
        let call = #"{"method":"org.protectfs.Daemon.Unlock","parameters":{"passcode":"#
        let messages: [[UInt8]] = [
          [0], Array("{}".utf8) + [0], Array("[]".utf8) + [0], Array("nonsense".utf8) + [0], random.bytes(5000) + [0],
          Array(#"{"method":7}"#.utf8) + [0], Array(#"{"method":"no.such.Method"}"#.utf8) + [0],
          Array((call + "1}}").utf8) + [0], Array((call + "null}}").utf8) + [0], Array((call + "\"").utf8),
          Array(String(repeating: "[", count: 100_000).utf8), [UInt8](repeating: UInt8(ascii: "a"), count: 8 << 20),
          Array((call + "\"" + String(repeating: "x", count: 4 << 20)).utf8), Array(#"{"a":""#.utf8) + [0xFF, 0],
        ]
        for message in messages {
          let connection = try unsafe check(calls_connect(socket))
          defer { calls_close(connection) }
          var sent = 0
          while sent < message.count {
            let end = min(sent + 65_536, message.count)
            let count = unsafe Array(message[sent..<end]).withUnsafeBytes {
              unsafe calls_send(connection, $0.baseAddress, $0.count)
            }
            guard count > 0 else { break }
            sent += count
          }
          var answer = [UInt8](repeating: 0, count: 4096)
          _ = unsafe answer.withUnsafeMutableBytes { unsafe calls_receive(connection, $0.baseAddress, $0.count, 200) }
        }
        #expect(try volume.status().state == .unlocked)
        // Many connections at once, which send nothing.
        for connection in (0..<200).map({ _ in unsafe calls_connect(socket) }) where connection >= 0 {
          calls_close(connection)
        }
        try volume.wait(for: .unlocked)
        try volume.lock()
        try volume.unlock(Volume.passcode)
      }
    }

    /// Two programs connect without a pause, and read no reply: a lock is not kept out.
    @Test(.enabled(if: PathName("/usr/bin/python3").exists, "python3 is not installed"))
    func aFloodOfConnections() throws {
      try Volume.with { volume in
        let socket = "/run/protectfs/" + ControlSocket.name(forMountPoint: volume.mountPoint.description)
        let script = """
          import collections, itertools, socket, sys
          calls = b'{"method":"org.protectfs.Daemon.GetStatus"}\\0' * 1000
          held = collections.deque(maxlen=400)
          for number in itertools.count():
              if number == 300: print("flooding", flush=True)
              held.append(socket.socket(socket.AF_UNIX))
              held[-1].settimeout(1)
              try:
                  held[-1].connect(sys.argv[1])
                  held[-1].send(calls)
              except OSError: pass
          """
        let flooding = try (0..<2).map {
          try Program(
            ["/usr/bin/python3", "-c", script, socket], output: volume.directory.appending("flood.\($0)"))
        }
        defer {
          for program in flooding {
            program.send(SIGKILL)
            _ = program.wait()
          }
        }
        let deadline = ContinuousClock.now + .seconds(30)
        while !flooding.allSatisfy({ $0.output.contains("flooding") }) {
          try #require(ContinuousClock.now < deadline)
          usleep(5000)
        }
        for _ in 0..<20 { try volume.lock() }
      }
    }

    /// The mount's owner and root may use the socket. Others cannot even see it.
    @Test func theControlSocketIsClosedToOthers() throws {
      try Volume.with { volume in
        try volume.mountPoint.setMode(0o755)
        let directory = try PathName("/run/protectfs").status()
        #expect(directory.mode & 0o777 == 0o700 && directory.user == 0)
      }
    }
  }
}
