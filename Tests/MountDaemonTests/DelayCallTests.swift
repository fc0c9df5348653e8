import FoundationEssentials
import Glibc
import Logging
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import Synchronization
import SystemPackage
import Testing

@testable import MountDaemon

/// `DelayLock` over the control socket: registration, replies and release.
@Suite struct DelayCallTests {
  private func register(_ server: ControlServer) throws -> LockDelay {
    try DaemonConnection(socketPath: server.socketPath).registerLockDelay()
  }

  /// Waits until this number of clients delay the announced lock.
  private func expect(_ count: Int, in daemon: FakeDaemon, _ location: SourceLocation = #_sourceLocation) {
    for _ in 0..<6000 where daemon.delays.withLock({ $0.count }) != count { usleep(10_000) }
    #expect(daemon.delays.withLock { $0.count } == count, sourceLocation: location)
  }

  @Test func isToldAndReleases() throws {
    try FakeDaemon.withServer { daemon, server in
      var delay = try register(server)
      daemon.announceLock(gracePeriod: .milliseconds(2500))
      #expect(try delay.waitForAnnouncement() == .seconds(7))
      var observer = try DaemonConnection(socketPath: server.socketPath)
      #expect(try observer.status().delayingClients == 1)
      #expect(throws: ControlError.self) { _ = try delay.waitForAnnouncement() }
      delay.release()
      expect(0, in: daemon)
    }
  }

  @Test func theEndOfTheValueReleases() throws {
    try FakeDaemon.withServer { daemon, server in
      do {
        let first = try register(server)
        var second = try register(server)
        daemon.announceLock(gracePeriod: .seconds(9))
        #expect(try second.waitForAnnouncement() == .seconds(9))
        expect(2, in: daemon)
        _ = consume first
        expect(1, in: daemon)
      }
      expect(0, in: daemon)
    }
  }

  @Test func isCancelledFromAnotherThread() throws {
    try FakeDaemon.withServer { daemon, server in
      var delay = try register(server)
      let canceller = try delay.canceller()
      let thread = Thread(name: "cancel") {
        usleep(50_000)
        canceller.cancel()
      }
      let error = #expect(throws: ControlError.self) { _ = try delay.waitForAnnouncement() }
      #expect(error?.code == .noAnswer)
      thread.join()
      // The canceller still exists, but does not keep the delay registered.
      daemon.announceLock(gracePeriod: .seconds(1))
      expect(0, in: daemon)
      _ = consume delay
      canceller.cancel()
    }
  }

  @Test func aCancellerThatIsKeptDelaysNothing() throws {
    try FakeDaemon.withServer { daemon, server in
      let delay = try register(server)
      let canceller = try delay.canceller()
      daemon.announceLock(gracePeriod: .seconds(1))
      delay.release()
      expect(0, in: daemon)
      canceller.cancel()
    }
  }

  @Test func eventsAreCancelledToo() throws {
    try FakeDaemon.withServer { daemon, server in
      let error = #expect(throws: ControlError.self) {
        let connection = try DaemonConnection(socketPath: server.socketPath)
        let canceller = try connection.canceller()
        try connection.events { _ in
          canceller.cancel()
          return true
        }
      }
      #expect(error?.code == .noAnswer)
      for _ in 0..<6000 where daemon.subscriptions.withLock({ $0 }) != 0 { usleep(10_000) }
      #expect(daemon.subscriptions.withLock { $0 } == 0)
    }
  }

  private static let call = Array(#"{"method":"org.protectfs.Daemon.DelayLock","more":true}"#.utf8) + [0]
  /// The first reply, whose members come in any order.
  private static let registered = [#"{"continues":true,"parameters":{}}"#, #"{"parameters":{},"continues":true}"#]

  private func connect(_ server: ControlServer) throws -> LocalSocket {
    let socket = try LocalSocket()
    try socket.connect(to: server.socketPath)
    try socket.setTimeout(.receiving, seconds: 60)
    return socket
  }

  /// The next message.
  private func receive(_ socket: borrowing LocalSocket) throws -> String {
    var text: [UInt8] = []
    var byte: [UInt8] = [0]
    while try socket.receive(into: &byte) == 1, byte != [0] { text += byte }
    return String(decoding: text, as: UTF8.self)
  }

  @Test func anotherCallReleases() throws {
    try FakeDaemon.withServer { daemon, server in
      let socket = try connect(server)
      try socket.send(Self.call)
      #expect(try Self.registered.contains(receive(socket)))
      daemon.announceLock(gracePeriod: .seconds(1))
      #expect(try receive(socket) == #"{"parameters":{"seconds":7}}"#)
      // Registers again with the same call that releases.
      try socket.send(Self.call)
      #expect(try Self.registered.contains(receive(socket)))
      expect(0, in: daemon)
      daemon.announceLock(gracePeriod: .seconds(8))
      #expect(try receive(socket) == #"{"parameters":{"seconds":8}}"#)
    }
  }

  @Test func anotherCallBeforeTheAnnouncementWithdraws() throws {
    try FakeDaemon.withServer { daemon, server in
      let socket = try connect(server)
      try socket.send(Self.call)
      #expect(try Self.registered.contains(receive(socket)))
      try socket.send(Array(#"{"method":"org.protectfs.Daemon.GetStatus"}"#.utf8) + [0])
      #expect(try receive(socket) == #"{"parameters":{}}"#)
      #expect(try receive(socket).contains("beforeFirstUnlock"))
      daemon.announceLock(gracePeriod: .seconds(1))
      expect(0, in: daemon)
    }
  }

  @Test func onlyWithMore() throws {
    try FakeDaemon.withServer { _, server in
      let socket = try connect(server)
      try socket.send(Array(#"{"method":"org.protectfs.Daemon.DelayLock"}"#.utf8) + [0])
      #expect(try receive(socket).contains("org.varlink.service.ExpectedMore"))
    }
  }

  /// A status of a daemon without delays.
  @Test func anEarlierStatusIsRead() throws {
    let status = FakeDaemon().status()
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    let text = String(decoding: try encoder.encode(status), as: UTF8.self)
    let earlier = text.replacing(#","delayingClients":0"#, with: "")
    #expect(earlier != text)
    #expect(try JSONDecoder().decode(DaemonStatus.self, from: Data(earlier.utf8)) == status)
  }
}
