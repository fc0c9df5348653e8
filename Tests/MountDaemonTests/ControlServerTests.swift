import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import Synchronization
import SystemPackage
import Testing

@testable import MountDaemon

@Suite struct ControlServerTests {
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
    // The connection continues.
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
    for _ in 0..<6000 where daemon.subscriptions.withLock({ $0 }) != 0 { usleep(10_000) }
    #expect(daemon.subscriptions.withLock { $0 } == 0)
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
