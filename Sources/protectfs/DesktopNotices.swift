import ProtectfsIO
import SystemBus

/// Says on the desktop what a user would not learn otherwise (Desktop Notifications Specification): that a lock is
/// delayed, that programs were refused, and that a login could not mount. There is one notification of each kind, which
/// later ones replace.
///
/// Where there is no desktop, nothing is said.
final class DesktopNotices: Sendable {
  private struct State {
    /// A lock that is delayed.
    var delay: (summary: String, body: String)?
    /// The programs that were refused since that was said last, by name, and when the first was.
    var refused: Set<String> = []
    var refusedSince: ContinuousClock.Instant?
    /// No refusal is said before.
    var quietUntil = ContinuousClock.now
  }

  /// Refusals of so long a time are said together.
  private static let gathering = Duration.seconds(2)
  /// Not more often than this.
  private static let quiet = Duration.seconds(60)

  private let state = Monitor(.commandState, State())

  /// A lock waits for programs that delay it.
  func lockIsDelayed(of mountPoint: String, by clients: Int, atMost seconds: Double) {
    let programs = clients == 1 ? "a program" : "\(clients) programs"
    state.update { state in
      state.delay = (
        "Not locked yet", "\(mountPoint) waits for \(programs), for \(Int(seconds.rounded(.up))) seconds at most."
      )
    }
  }

  /// A program was refused because of a file's class.
  func isRefused(_ program: String) {
    state.update { state in
      state.refused.insert(program)
      if state.refusedSince == nil { state.refusedSince = .now }
    }
  }

  /// Says what there is to say, for ever: the body of a thread.
  func run() -> Never {
    var (delay, refusal) = (UInt32(0), UInt32(0))
    while true {
      let (summary, body, isDelay) = next()
      // A bus for each, as there are few: nobody has to notice when it is lost.
      let shown = try? Self.show(summary, body, replacing: isDelay ? delay : refusal)
      guard let shown else { continue }
      if isDelay { delay = shown } else { refusal = shown }
    }
  }

  /// Says what keeps the store of logins from being mounted. The desktop may come some minutes later than this begins.
  func showLoginProblem() {
    for _ in 0..<30 {
      guard let problem = (try? LoginSettings.read())?.problem,
        (try? Self.show("Not mounted", problem.printable, replacing: 0)) == nil
      else { return }
      Thread.sleep(microseconds: 10_000_000)
    }
  }

  private func next() -> (summary: String, body: String, isDelay: Bool) {
    state.wait { state, deadline in
      if let delay = state.delay.take() { return (delay.summary, delay.body, true) }
      guard let since = state.refusedSince else { return nil }
      let time = max(since + Self.gathering, state.quietUntil)
      guard time <= .now else {
        deadline = time
        return nil
      }
      defer { (state.refused, state.refusedSince, state.quietUntil) = ([], nil, .now + Self.quiet) }
      return ("Locked files", Self.words(for: state.refused.sorted()), false)
    }
  }

  private static func words(for programs: [String]) -> String {
    let named = programs.prefix(3).joined(separator: ", ")
    let others = programs.count > 3 ? " and \(programs.count - 3) others" : ""
    return "\(named)\(others) asked for files that are locked. 'protectfs unlock' unlocks them."
  }

  /// Shows a notification. Returns its number.
  private static func show(_ summary: String, _ body: String, replacing number: UInt32) throws(BusError) -> UInt32 {
    let name = "org.freedesktop.Notifications"
    // The body is markup.
    let text = body.reduce(into: "") { text, character in
      switch character {
      case "&": text += "&amp;"
      case "<": text += "&lt;"
      case ">": text += "&gt;"
      default: text.append(character)
      }
    }
    return try MessageBus.user().call(
      name, "/org/freedesktop/Notifications", name, "Notify",
      [
        .string("protectfs"), .uint32(number), .string("changes-prevent"), .string(summary), .string(text),
        .emptyArray("s"), .emptyArray("{sv}"), .int32(-1),
      ]
    ).uint32()
  }
}
