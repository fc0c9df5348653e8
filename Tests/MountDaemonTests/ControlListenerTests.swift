import Glibc
import Logging
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

@testable import MountDaemon

@Suite struct ControlListenerTests {
  /// A daemon that hangs, with a full queue of connections, does not prevent another daemon from starting.
  @Test func aDaemonThatHangsIsLeftAlone() throws {
    let first = try RunningServer(isAmongOthers: true)
    let path = first.server.socketPath.replacing(".sock", with: ".hung.sock")
    let hung = try LocalSocket()
    try hung.bind(to: path)
    defer { unsafe unlink(path) }
    #expect(listen(hung.rawValue, 0) == 0)
    let waiting = try LocalSocket()
    try waiting.connect(to: path)
    let second = try RunningServer(isAmongOthers: true)
    var connection = try second.connect()
    _ = try connection.status()
    #expect(unsafe access(path, F_OK) == 0)
  }

  /// As many clients as can be served may connect at once: none is refused while the server is busy accepting others.
  @Test func asManyAsAreServedMayWait() throws {
    // In a directory where nobody else looks for servers, which would be one more client.
    let directory = "/tmp/protectfs-control-\(UInt64.random(in: 0...UInt64.max))"
    let listener = try ControlListener(mountPoint: "/tests/backlog", directories: [directory])
    defer {
      listener.removeFile()
      _ = unsafe rmdir(directory)
    }
    var clients: [CInt] = []
    defer { for client in clients { close(client) } }
    for _ in 0..<ControlServer.Limits().connections {
      let client = try LocalSocket(isBlocking: false)
      try client.connect(to: listener.location.path)
      clients.append(client.release())
    }
  }

  @Test(.enabled(if: geteuid() == 0)) func socketIsForTheOwnerOnly() throws {
    let running = try RunningServer(isAmongOthers: true)
    var status = stat()
    #expect(unsafe stat(running.server.socketPath, &status) == 0)
    #expect(status.st_mode & 0o777 == 0o600)
    #expect(unsafe stat("/run/protectfs", &status) == 0)
    #expect(status.st_mode & 0o777 == 0o700)
  }

  @Test func socketOfALivingDaemonIsNotTaken() throws {
    let running = try RunningServer(isAmongOthers: true)
    #expect(throws: ControlError.self) {
      try ControlServer(
        mountPoint: running.mountPoint, control: FakeDaemon(), logger: Logger(label: "test"))
    }
    var client = try running.connect()
    _ = try client.status()
  }

  @Test func socketOfADeadDaemonIsReplaced() throws {
    let path: String
    let mountPoint = "/tests/control/stale-\(getpid())"
    do {
      // Ends without stop(), like a killed daemon.
      let dead = try ControlListener(mountPoint: mountPoint)
      path = dead.location.path
    }
    #expect(unsafe access(path, F_OK) == 0)
    let server = try ControlServer(mountPoint: mountPoint, control: FakeDaemon(), logger: Logger(label: "test"))
    server.start()
    var client = try DaemonConnection(socketPath: path)
    _ = try client.status()
    server.stop()
    #expect(unsafe access(path, F_OK) != 0)
  }

  /// A daemon accepts no connection until its queue is full. A daemon that starts checks its socket too.
  @Test func aDaemonThatHangsHoldsUpNoOther() throws {
    let mountPoint = "/tests/control/hangs-\(getpid())"
    let hanging = try ControlListener(mountPoint: mountPoint)
    defer { hanging.removeFile() }
    var waiting: [CInt] = []
    defer { waiting.forEach { close($0) } }
    #expect(throws: Errno.resourceTemporarilyUnavailable) {
      while waiting.count < 1000 {
        let socket = try LocalSocket(isBlocking: false)
        try socket.connect(to: hanging.location.path)
        waiting.append(socket.release())
      }
    }
    let other = try ControlListener(mountPoint: mountPoint + "-not")
    other.removeFile()
    #expect(throws: ControlError.self) { _ = try ControlListener(mountPoint: mountPoint) }
  }
}
