import ProtectfsIO

/// A line on the terminal that says how far a long command has come.
final class ProgressLine: Sendable {
  private struct State {
    var next = ContinuousClock.now + .milliseconds(300)
    var width = 0
  }

  /// Whether there is somebody to see it.
  let isShown: Bool
  private let state = RankedMutex(.progressLine, State())

  init(mayBeShown: Bool = true) {
    isShown = mayBeShown && StandardStream.isErrorTerminal
  }

  /// Shows a line in the place of the one before, if it is time for one.
  func show(_ text: @autoclosure () -> String) {
    guard isShown else { return }
    state.withLock { state in
      guard ContinuousClock.now >= state.next else { return }
      state.next = .now + .milliseconds(200)
      let text = text()
      StandardStream.writeError("\r" + text.padded(to: state.width))
      state.width = text.count
    }
  }

  /// Takes the line away, before something else is said.
  func clear() { end(with: "\r") }

  /// Leaves a last line where there was one.
  func finish(_ text: String) { end(with: "\r\(text)\n") }

  private func end(with text: String) {
    state.withLock { state in
      guard state.width > 0 else { return }
      StandardStream.writeError("\r" + "".padded(to: state.width) + text)
      state.width = 0
    }
  }
}
