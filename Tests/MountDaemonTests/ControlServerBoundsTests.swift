import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

@testable import MountDaemon

/// A client that sends too much or too slowly loses at most its own connection.
@Suite struct ControlServerBoundsTests {
  @Test func slowListenerLosesEventsAndIsTold() throws {
    let queue = try EventQueue<DaemonEvent>(capacity: 3)
    for _ in 0..<5 { queue.append(.didBecomeAvailable(classes: [])) }
    #expect(queue.takeAll() == Array(repeating: .didBecomeAvailable(classes: []), count: 3) + [.eventsDropped(2)])
    #expect(queue.takeAll().isEmpty)
    queue.append(.eventsDropped(1))
    #expect(queue.takeAll() == [.eventsDropped(1)])
  }

  @Test func listenerThatNeverReadsIsClosed() throws {
    var limits = ControlServer.Limits()
    limits.sendSeconds = 1
    let running = try RunningServer(limits: limits)
    let socket = try running.connectRaw()
    try socket.send(Array(#"{"method":"org.protectfs.Daemon.MonitorEvents","more":true}"#.utf8) + [0])
    for _ in 0..<6000 where running.daemon.subscriptions.withLock({ $0 }) == 0 { usleep(10_000) }
    let path = String(repeating: "x", count: 4000)
    let denial = AccessDenial(code: .fileReadNoPermission, protectionClass: .complete, path: path, processID: 1)
    for _ in 0..<60_000 where running.daemon.subscriptions.withLock({ $0 }) != 0 {
      running.daemon.broadcast.send(.accessDenied(denial))
      usleep(1000)
    }
    #expect(running.daemon.subscriptions.withLock { $0 } == 0)
    var client = try running.connect()
    _ = try client.status()
  }

  @Test func oversizedMessageClosesTheConnection() throws {
    let running = try RunningServer()
    let socket = try running.connectRaw()
    // The server may close while this is being sent.
    try? socket.send([UInt8](repeating: UInt8(ascii: " "), count: 200_000))
    #expect(receive(socket).isClosed)
    var client = try running.connect()
    _ = try client.status()
  }

  @Test func longestMessageIsAnswered() throws {
    let running = try RunningServer()
    let socket = try running.connectRaw()
    let call = Array(#"{"method":"org.protectfs.Daemon.GetStatus"}"#.utf8)
    let blanks = [UInt8](repeating: UInt8(ascii: " "), count: ControlInterface.longestMessage - call.count)
    try socket.send(blanks + call + [0])
    #expect(receive(socket, untilNUL: true).text.contains("beforeFirstUnlock"))
  }

  @Test func idleClientsAreClosed() throws {
    var limits = ControlServer.Limits()
    limits.idle = .milliseconds(200)
    limits.message = .seconds(600)
    let running = try RunningServer(limits: limits)
    let idle = try running.connectRaw()
    #expect(receive(idle) == ("", true))
  }

  @Test func slowClientsAreClosed() throws {
    var limits = ControlServer.Limits()
    limits.idle = .seconds(600)
    limits.message = .milliseconds(200)
    let running = try RunningServer(limits: limits)
    let slow = try running.connectRaw()
    try slow.send(Array("{".utf8))
    #expect(receive(slow) == ("", true))
  }

  /// A silent client is disconnected to make room for another.
  @Test func silentConnectionsGiveWay() throws {
    var limits = ControlServer.Limits()
    limits.connections = 2
    let running = try RunningServer(limits: limits)
    let first = try running.connectRaw()
    let second = try running.connectRaw()
    var client = try running.connect()
    _ = try client.status()
    var entries = [first.rawValue, second.rawValue].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
    #expect(unsafe poll(&entries, 2, 60_000) == 1)
    #expect(receive(first) == ("", true))
  }

  /// Clients whose calls are in progress keep their connections.
  @Test func connectionsAreBounded() throws {
    var limits = ControlServer.Limits()
    limits.connections = 2
    let running = try RunningServer(limits: limits)
    do {
      let first = try running.connectRaw()
      let second = try running.connectRaw()
      #expect(try call("MonitorEvents", more: true, on: first).contains("monitoringBegan"))
      #expect(try call("MonitorEvents", more: true, on: second).contains("monitoringBegan"))
      var third = try running.connect()
      var failure: ControlError?
      do throws(ControlError) { _ = try third.status() } catch { failure = error }
      #expect(failure?.code == .noAnswer)
      try running.daemon.lock(gracePeriod: nil, includingInactive: false, wait: false)
      #expect(receive(first, untilNUL: true).text.contains("didBecomeUnavailable"))
      #expect(receive(second, untilNUL: true).text.contains("didBecomeUnavailable"))
    }
    // They have disconnected, which the server will notice soon.
    var isServed = false
    for _ in 0..<6000 where !isServed {
      var again = try running.connect()
      do throws(ControlError) {
        _ = try again.status()
        isServed = true
      } catch {
        usleep(10_000)
      }
    }
    #expect(isServed)
  }

  /// Clients that wait for a lock leave room for others. The lock itself needs none.
  @Test func waitingForALockIsBounded() throws {
    var limits = ControlServer.Limits()
    limits.streams = 1
    let running = try RunningServer(limits: limits)
    let listener = try running.connectRaw()
    #expect(try call("MonitorEvents", more: true, on: listener).contains("monitoringBegan"))
    var client = try running.connect()
    var failure: ControlError?
    do throws(ControlError) { try client.lock() } catch { failure = error }
    #expect(failure?.code == .failed && failure?.message.contains("the lock is announced") == true)
    try client.lock(gracePeriod: .zero)
    try client.lock(waiting: false)
    #expect(running.daemon.state.withLock { $0.locks.map(\.1) } == [false, true, false])
  }

  @Test func waitingSecretsAreBounded() throws {
    var limits = ControlServer.Limits()
    limits.secrets = 1
    let running = try RunningServer(limits: limits)
    let first = try running.connectRaw()
    let second = try running.connectRaw()
    let unlock = Array(#"{"method":"org.protectfs.Daemon.Unlock","parameters":{"passcode":"secret"}}"#.utf8) + [0]
    let isFirstRefused = try running.daemon.state.withLock { _ in
      // The daemon cannot make an unlock attempt now, so one of the two calls waits.
      try first.send(unlock)
      try second.send(unlock)
      var entries = [first.rawValue, second.rawValue].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
      #expect(unsafe poll(&entries, 2, 60_000) == 1)
      return entries[0].revents != 0
    }
    let replies = (receive(first, untilNUL: true).text, receive(second, untilNUL: true).text)
    let (refused, tried) = isFirstRefused ? replies : (replies.1, replies.0)
    #expect(refused.contains("org.protectfs.Daemon.Failed") && refused.contains("calls wait"))
    #expect(tried == #"{"parameters":{}}"#)
    try first.send(unlock)
    #expect(receive(first, untilNUL: true).text == #"{"parameters":{}}"#)
  }

  /// Whoever erases the store in an emergency does not wait for an unlock, nor is one refused because many do.
  @Test func anErasureDoesNotWaitForSecrets() throws {
    var limits = ControlServer.Limits()
    limits.secrets = 1
    let running = try RunningServer(limits: limits)
    let first = try running.connectRaw()
    let second = try running.connectRaw()
    try running.daemon.state.withLock { _ in
      // The daemon cannot make the unlock attempt now.
      try first.send(Array(#"{"method":"org.protectfs.Daemon.Unlock","parameters":{"passcode":"secret"}}"#.utf8) + [0])
      usleep(100_000)
      try second.send(Array(#"{"method":"org.protectfs.Daemon.EraseStore"}"#.utf8) + [0])
      usleep(100_000)
    }
    #expect(receive(first, untilNUL: true).text == #"{"parameters":{}}"#)
    #expect(receive(second, untilNUL: true).text == #"{"parameters":{}}"#)
  }

  /// Clients that listen or delay locks leave room for calls.
  @Test func streamsAreBounded() throws {
    var limits = ControlServer.Limits()
    limits.connections = 3
    limits.streams = 2
    let running = try RunningServer(limits: limits)
    let delay = try running.connect().registerLockDelay()
    let listener = try running.connectRaw()
    let listen = Array(#"{"method":"org.protectfs.Daemon.MonitorEvents","more":true}"#.utf8) + [0]
    try listener.send(listen)
    #expect(receive(listener, untilNUL: true).text.contains("monitoringBegan"))
    do {
      let third = try running.connectRaw()
      for method in ["MonitorEvents", "DelayLock"] {
        let reply = try call(method, more: true, on: third)
        #expect(reply.contains("org.protectfs.Daemon.Failed") && reply.contains("too many clients"))
      }
      // The connection continues: a call that ends is answered.
      #expect(try call("GetStatus", on: third).contains("beforeFirstUnlock"))
      delay.release()
      var reply = ""
      for _ in 0..<6000 where !reply.contains("monitoringBegan") {
        usleep(10_000)
        try third.send(listen)
        reply = receive(third, untilNUL: true).text
      }
      #expect(reply.contains("monitoringBegan"))
    }
  }
}
