import ProtectfsIO

/// Work that speeds up later requests, for requests that came through rings: the store may take long over it, and their
/// answers must not wait. A thread of its own does it.
final class ReadAheadQueue: Sendable {
  private struct State {
    var waiting: [ReadAhead] = []
    var isStopping = false
  }

  /// What comes when so much waits already is left out.
  private static let longest = 4

  private let state = Monitor(.readAhead, State())

  func add(_ work: @escaping ReadAhead) {
    state.update { if $0.waiting.count < Self.longest { $0.waiting.append(work) } }
  }

  /// Ends ``run()``.
  func stop() {
    state.update { $0.isStopping = true }
  }

  /// Does the work until ``stop()``.
  func run() {
    while let work = next() { work() }
  }

  private func next() -> ReadAhead? {
    state.wait { state, _ -> ReadAhead?? in
      if state.isStopping { return .some(nil) }
      return state.waiting.isEmpty ? nil : .some(state.waiting.removeFirst())
    }
  }
}
