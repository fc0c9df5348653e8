import ProtectfsClient
import ProtectfsIO
import SystemPackage
import Testing

@testable import MountDaemon

/// Clients of a daemon that can start no thread.
@Suite struct ControlReserveTests {
  @Test func callsThatEndAreAnswered() throws {
    let running = try RunningServer(hasThreads: false)
    var client = try running.connect()
    try client.lock(gracePeriod: .zero)
    try client.lockWithInactive()
    try client.lockAll()
    try unsafe withText("secret") { try unsafe client.unlock(.passcode($0)) }
    #expect(try client.status().state == .unlocked)
    #expect(running.daemon.state.withLock { $0.locks.map(\.1) } == [true, true])
  }

  /// They would take the threads that there are.
  @Test func callsThatLastAreRefused() throws {
    let running = try RunningServer(hasThreads: false)
    let socket = try running.connectRaw()
    for method in ["MonitorEvents", "DelayLock"] {
      let reply = try call(method, more: true, on: socket)
      #expect(reply.contains("org.protectfs.Daemon.Failed") && reply.contains("ulimit -u"), "\(reply)")
    }
    var client = try running.connect()
    let failure = #expect(throws: ControlError.self) { try client.lock() }
    #expect(failure?.message.contains("the lock is announced") == true)
    #expect(running.daemon.state.withLock { $0.locks.map(\.1) } == [false])
  }

  /// More silent clients than threads.
  @Test func silentClientsKeepNobodyOut() throws {
    let running = try RunningServer(hasThreads: false)
    var silent: [SharedDescriptor] = []
    for _ in 0..<3 * ControlReserve.threadCount {
      silent.append(SharedDescriptor(Descriptor(owning: try running.connectRaw().release())))
    }
    var client = try running.connect()
    try client.lock(gracePeriod: .zero)
    #expect(running.daemon.state.withLock { $0.locks.count } == 1)
    withExtendedLifetime(silent) {}
  }

  /// Who has many clients, silent or not, keeps no other process waiting.
  @Test func whoHasTheFewestIsNext() {
    #expect(ControlReserve.next(of: [1, 1, 1, 2], [true, true, true, true]) == 3)
    #expect(ControlReserve.next(of: [1, 1, 2, 3], [true, false, false, true]) == 3)
    #expect(ControlReserve.next(of: [1, 1, 2], [false, true, false]) == 1)
    #expect(ControlReserve.next(of: [1, 2], [true, true]) == 0)
    #expect(ControlReserve.next(of: [1, 2], [false, false]) == 0)
  }

  @Test func theServerEndsWhileClientsWait() throws {
    let running = try RunningServer(hasThreads: false)
    let first = try running.connectRaw()
    let second = try running.connectRaw()
    // One that was not accepted yet is reset.
    #expect(try call("GetStatus", on: first).contains("beforeFirstUnlock"))
    #expect(try call("GetStatus", on: second).contains("beforeFirstUnlock"))
    running.server.stop()
    #expect(receive(first) == ("", true))
    #expect(receive(second) == ("", true))
  }
}
