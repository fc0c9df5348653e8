import DataProtectionCore
import Glibc
import LinuxIO
import Logging
import Synchronization
import SystemPackage
import Testing

@testable import MountDaemon

/// A server for a mount point of its own, stopped when the value goes.
private final class RunningServer: Sendable {
  let daemon: FakeDaemon
  let server: ControlServer
  let mountPoint: String
  /// Where nobody else looks for servers, which would be one more client.
  private let ownDirectory: String?

  init(
    owner: UInt32 = geteuid(), limits: ControlServer.Limits = ControlServer.Limits(), isAmongOthers: Bool = false
  ) throws {
    let number = UInt64.random(in: 0...UInt64.max)
    mountPoint = "/tests/control/\(number)"
    daemon = FakeDaemon(owner: owner)
    ownDirectory = isAmongOthers ? nil : "/tmp/protectfs-control-\(number)"
    server = try ControlServer(
      mountPoint: mountPoint, control: daemon, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
      limits: limits, directories: ownDirectory.map { [$0] } ?? ControlSocket.directories(of: geteuid()))
    server.start()
  }

  deinit {
    server.stop()
    if let ownDirectory { _ = unsafe rmdir(ownDirectory) }
  }

  func connect() throws -> DaemonConnection { try DaemonConnection(socketPath: server.socketPath) }

  /// A connection on which anything can be said.
  func connectRaw() throws -> LocalSocket {
    let socket = try LocalSocket()
    try socket.connect(to: server.socketPath)
    try socket.setTimeout(.receiving, seconds: 20)
    return socket
  }
}

/// Everything until the server closes the connection or falls silent.
private func receive(_ socket: borrowing LocalSocket, untilNUL: Bool = false) -> (text: String, isClosed: Bool) {
  var bytes: [UInt8] = []
  var chunk = [UInt8](repeating: 0, count: 4096)
  while true {
    guard let count = try? socket.receive(into: &chunk) else {
      return (String(decoding: bytes, as: UTF8.self), errno != EAGAIN)
    }
    if count == 0 { return (String(decoding: bytes, as: UTF8.self), true) }
    bytes += chunk[..<count]
    if untilNUL, bytes.last == 0 { return (String(decoding: bytes.dropLast(), as: UTF8.self), false) }
  }
}

/// The reply to a call.
private func call(_ method: String, more: Bool = false, on socket: borrowing LocalSocket) throws -> String {
  try socket.send(Array(#"{"method":"org.protectfs.Daemon.\#(method)","more":\#(more)}"#.utf8) + [0])
  return receive(socket, untilNUL: true).text
}

private func withText<Result>(_ text: String, _ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
  try unsafe Array(text.utf8).withUnsafeBytes(body)
}

@Suite struct ControlServerTests {
  /// A daemon that hangs, and whose queue of connections is full, keeps no other one from starting.
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

  @Test func answersTheMethods() throws {
    let running = try RunningServer()
    var client = try running.connect()
    #expect(try client.status().state == .beforeFirstUnlock)
    try unsafe withText("secret") { try unsafe client.unlock(.passcode($0)) }
    #expect(try client.status() == running.daemon.status())
    try client.lock(gracePeriod: .milliseconds(1500), waiting: false)
    try client.lock()
    let locks = running.daemon.state.withLock { $0.locks }
    #expect(locks.map(\.0) == [.milliseconds(1500), nil])
    #expect(locks.map(\.1) == [false, true])
    try unsafe withText("RECO-VERY") { try unsafe client.unlock(.recoveryKey($0)) }
    #expect(try client.status().state == .unlocked)
  }

  @Test func changesThePasscode() throws {
    let running = try RunningServer()
    var client = try running.connect()
    let odd = "new \"\\\u{1} pässcode 😀"
    try unsafe withText("secret") { old in
      try unsafe withText(odd) { try unsafe client.changePasscode(from: .passcode(old), to: $0) }
    }
    #expect(running.daemon.state.withLock { $0.passcode } == odd)
    try unsafe withText(odd) { try unsafe client.unlock(.passcode($0)) }
  }

  @Test func passesErrorsOn() throws {
    let running = try RunningServer()
    var client = try running.connect()
    var failure: ControlError?
    do throws(ControlError) {
      try unsafe client.unlock(.passcode(UnsafeRawBufferPointer(start: nil, count: 0)))
    } catch { failure = error }
    #expect(failure?.code == .invalidRequest)
    #expect(throws: ControlError(.wrongPasscode, "the passcode is wrong")) {
      try unsafe withText("wrong") { try unsafe client.unlock(.passcode($0)) }
    }
    // The connection goes on.
    #expect(try client.status().state == .beforeFirstUnlock)
  }

  @Test func streamsEvents() throws {
    let running = try RunningServer()
    let listener = try running.connect()
    let daemon = running.daemon
    let received = Mutex<[DaemonEvent]>([])
    try listener.events { event in
      received.withLock { $0.append(event) }
      switch event {
      case .monitoringBegan:
        daemon.broadcast.send(.willBecomeUnavailable(classes: [.complete], seconds: 2))
        daemon.broadcast.send(
          .accessDenied(
            AccessDenial(code: .fileReadNoPermission, protectionClass: .complete, path: "/x", processID: 1)))
        return true
      case .accessDenied: return false
      default: return true
      }
    }
    #expect(
      received.withLock { $0 } == [
        .monitoringBegan(.beforeFirstUnlock), .willBecomeUnavailable(classes: [.complete], seconds: 2),
        .accessDenied(AccessDenial(code: .fileReadNoPermission, protectionClass: .complete, path: "/x", processID: 1)),
      ])
    for _ in 0..<200 where daemon.subscriptions.withLock({ $0 }) != 0 { usleep(10_000) }
    #expect(daemon.subscriptions.withLock { $0 } == 0)
  }

  @Test func slowListenerLosesEventsAndIsTold() throws {
    let queue = try EventQueue(capacity: 3)
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
    for _ in 0..<200 where running.daemon.subscriptions.withLock({ $0 }) == 0 { usleep(10_000) }
    let path = String(repeating: "x", count: 4000)
    let denial = AccessDenial(code: .fileReadNoPermission, protectionClass: .complete, path: path, processID: 1)
    for _ in 0..<2000 where running.daemon.subscriptions.withLock({ $0 }) != 0 {
      running.daemon.broadcast.send(.accessDenied(denial))
      usleep(1000)
    }
    #expect(running.daemon.subscriptions.withLock { $0 } == 0)
    var client = try running.connect()
    _ = try client.status()
  }

  @Test(arguments: [
    "", "x", "[]", "{}", #"{"method":1}"#, "{\"method\":\"\u{1}\"}", #"{"method":"a","more":"yes"}"#,
    String(repeating: "[", count: 50_000), #"{"a":"# + String(repeating: #"{"a":"#, count: 5000),
  ])
  func hostileMessageClosesItsConnectionOnly(_ message: String) throws {
    let running = try RunningServer()
    let socket = try running.connectRaw()
    try socket.send(Array(message.utf8) + [0])
    #expect(receive(socket) == ("", true))
    var client = try running.connect()
    _ = try client.status()
  }

  @Test func notUTF8ClosesTheConnection() throws {
    let running = try RunningServer()
    let socket = try running.connectRaw()
    try socket.send(Array(#"{"method":""#.utf8) + [0xFF, 0xFE] + Array(#""}"#.utf8) + [0])
    #expect(receive(socket) == ("", true))
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

  @Test func idleAndSlowClientsAreClosed() throws {
    var limits = ControlServer.Limits()
    limits.idle = .milliseconds(200)
    limits.message = .milliseconds(200)
    let running = try RunningServer(limits: limits)
    let idle = try running.connectRaw()
    let slow = try running.connectRaw()
    try slow.send(Array("{".utf8))
    #expect(receive(idle) == ("", true))
    #expect(receive(slow) == ("", true))
  }

  /// For one more client one that is silent goes.
  @Test func silentConnectionsGiveWay() throws {
    var limits = ControlServer.Limits()
    limits.connections = 2
    let running = try RunningServer(limits: limits)
    let first = try running.connectRaw()
    let second = try running.connectRaw()
    var client = try running.connect()
    _ = try client.status()
    var entries = [first.rawValue, second.rawValue].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
    #expect(unsafe poll(&entries, 2, 20_000) == 1)
    #expect(receive(first) == ("", true))
  }

  /// Clients whose calls are being carried out keep their connections.
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
      try running.daemon.lock(gracePeriod: nil, wait: false)
      #expect(receive(first, untilNUL: true).text.contains("didBecomeUnavailable"))
      #expect(receive(second, untilNUL: true).text.contains("didBecomeUnavailable"))
    }
    // They have gone, which the server is about to notice.
    var isServed = false
    for _ in 0..<1000 where !isServed {
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

  /// Who waits for a lock leaves room for others; the lock itself needs none.
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
      // The daemon cannot try a passcode now, so that one of the two calls waits.
      try first.send(unlock)
      try second.send(unlock)
      var entries = [first.rawValue, second.rawValue].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
      #expect(unsafe poll(&entries, 2, 20_000) == 1)
      return entries[0].revents != 0
    }
    let replies = (receive(first, untilNUL: true).text, receive(second, untilNUL: true).text)
    let (refused, tried) = isFirstRefused ? replies : (replies.1, replies.0)
    #expect(refused.contains("org.protectfs.Daemon.Failed") && refused.contains("calls wait"))
    #expect(tried == #"{"parameters":{}}"#)
    try first.send(unlock)
    #expect(receive(first, untilNUL: true).text == #"{"parameters":{}}"#)
  }

  /// Clients that listen or hold locks back leave room for calls.
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
      // The connection goes on: a call that ends is answered.
      #expect(try call("GetStatus", on: third).contains("beforeFirstUnlock"))
      delay.release()
      var reply = ""
      for _ in 0..<1000 where !reply.contains("monitoringBegan") {
        usleep(10_000)
        try third.send(listen)
        reply = receive(third, untilNUL: true).text
      }
      #expect(reply.contains("monitoringBegan"))
    }
  }

  @Test func severalCallsMayBeSentAtOnce() throws {
    let running = try RunningServer()
    let socket = try running.connectRaw()
    let one = Array(#"{"method":"org.protectfs.Daemon.Lock","parameters":{"wait":false},"oneway":true}"#.utf8) + [0]
    let two = Array(#"{"method":"org.protectfs.Daemon.GetStatus"}"#.utf8) + [0]
    try socket.send(one + two)
    #expect(receive(socket, untilNUL: true).text.contains(#""state":"locked""#))
  }

  @Test(arguments: [
    (#"{"method":"org.protectfs.Daemon.Nothing"}"#, "org.varlink.service.MethodNotFound"),
    (#"{"method":"org.example.Nothing"}"#, "org.varlink.service.InterfaceNotFound"),
    (#"{"method":"org.protectfs.Daemon.Unlock"}"#, #""parameter":"passcode""#),
    (#"{"method":"org.protectfs.Daemon.Unlock","parameters":{"passcode":""}}"#, #""parameter":"passcode""#),
    (#"{"method":"org.protectfs.Daemon.Unlock","parameters":{"passcode":12}}"#, #""parameter":"passcode""#),
    (
      #"{"method":"org.protectfs.Daemon.ChangePasscode","parameters":{"passcode":"a"}}"#,
      #""parameter":"newPasscode""#
    ),
    (#"{"method":"org.protectfs.Daemon.Lock","parameters":{"gracePeriod":-1}}"#, #""parameter":"gracePeriod""#),
    (#"{"method":"org.protectfs.Daemon.Lock","parameters":{"gracePeriod":1e99}}"#, #""parameter":"gracePeriod""#),
    (#"{"method":"org.protectfs.Daemon.Lock","parameters":{"wait":"x"}}"#, #""parameter":"wait""#),
    (#"{"method":"org.protectfs.Daemon.Lock","parameters":[]}"#, #""parameter":"parameters""#),
    (#"{"method":"org.protectfs.Daemon.MonitorEvents"}"#, "org.varlink.service.ExpectedMore"),
    (#"{"method":"org.varlink.service.GetInterfaceDescription"}"#, #""parameter":"interface""#),
  ])
  func mistakesAreNamed(_ call: String, _ expected: String) throws {
    let running = try RunningServer()
    let socket = try running.connectRaw()
    try socket.send(Array(call.utf8) + [0])
    let reply = receive(socket, untilNUL: true)
    #expect(reply.text.contains(expected))
    #expect(!reply.isClosed)
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
      // Goes without stop(), as a killed daemon does.
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

  /// One that accepts nobody, until no more can wait for it: whoever starts looks at its socket too.
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

@Suite struct ProtocolDocumentTests {
  @Test func holdsTheInterfaceDefinition() throws {
    let path = #filePath.replacing("Tests/MountDaemonTests/ControlServerTests.swift", with: "Documentation/PROTOCOL.md")
    let file = try Descriptor.open(PathName(path), [.readOnly])
    let text = String(decoding: try file.readAll(limit: 1 << 20), as: UTF8.self)
    #expect(text.contains("```varlink\n\(VarlinkInterface.daemon)```"))
    for code in ControlError.Code.allCases.prefix(7) {
      #expect(VarlinkInterface.daemon.contains("\nerror \(code.rawValue) (message: string)\n"))
    }
  }
}
