import Glibc

/// A line on the terminal that says how far a long command has come.
final class ProgressLine {
  private let isShown: Bool
  private var next = ContinuousClock.now + .milliseconds(300)
  private var width = 0

  init(isShown: Bool = isatty(STDERR_FILENO) == 1) {
    self.isShown = isShown
  }

  /// Shows a line in the place of the one before, if it is time for one.
  func show(_ text: @autoclosure () -> String) {
    guard isShown, ContinuousClock.now >= next else { return }
    next = .now + .milliseconds(200)
    let text = text()
    StandardStream.writeError("\r" + text.padded(to: width))
    width = text.count
  }

  /// Takes the line away, before something else is said.
  func clear() {
    guard width > 0 else { return }
    StandardStream.writeError("\r" + "".padded(to: width) + "\r")
    width = 0
  }
}
