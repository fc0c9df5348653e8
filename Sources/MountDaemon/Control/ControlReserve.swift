import ProtectfsIO

/// Threads that are there from the start, for clients of the control socket for which none can be started: a lock must
/// be possible when the system or the user has too many threads.
///
/// Clients for which no thread is free wait. Those that have said something go before those that are silent, first
/// one of the process of which the fewest wait.
final class ControlReserve: Sendable {
  /// A client that waits.
  struct Client {
    let socket: CInt
    let number: ConnectionTable.Number
    let process: Int32
  }

  private struct State {
    var clients: [Client] = []
    var isStopping = false
  }

  static let threadCount = 4

  private let state = Monitor(.controlClients, State())

  /// Starts the threads, which call `serve`.
  func start(_ serve: @escaping @Sendable (Client) -> Void) {
    for _ in 0..<Self.threadCount {
      Thread(name: "control reserve") { [self] in while let client = next() { serve(client) } }.detach()
    }
  }

  /// Has a client served.
  func add(_ client: Client) {
    state.update { $0.clients.append(client) }
  }

  /// Ends the threads, when no client waits.
  func stop() {
    state.update { $0.isStopping = true }
  }

  private func next() -> Client? {
    state.wait { state, _ -> Client?? in
      if state.clients.isEmpty { return state.isStopping ? .some(nil) : nil }
      let isReadable = try? Poll.wait(for: state.clients.map { .readable($0.socket) }, atMost: .zero)
      return state.clients.remove(at: Self.next(of: state.clients.map(\.process), isReadable ?? []))
    }
  }

  /// Which client is served next, by the processes of those that wait.
  static func next(of processes: [Int32], _ isReadable: [Bool]) -> Int {
    let counts = processes.reduce(into: [:]) { $0[$1, default: 0] += 1 }
    let ready = isReadable.indices.filter { isReadable[$0] }
    return ready.min { counts[processes[$0]]! < counts[processes[$1]]! } ?? 0
  }
}

extension ControlServer.Limits {
  /// Those of a client that is served by such a thread: it may only be silent for a moment.
  var ofReserve: Self {
    var limits = self
    (limits.idle, limits.message) = (min(idle, .seconds(1)), min(message, .seconds(1)))
    limits.sendSeconds = 1
    return limits
  }
}
