import ArgumentParser
import FoundationEssentials
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy

/// `protectfs events`
struct EventsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "events",
    abstract: "Show what happens on a mount, until interrupted.",
    discussion: """
      Prints a line for each event, with its time:

        willBecomeUnavailable  a lock was announced: these classes, in so many seconds
        didBecomeUnavailable   the keys of these classes have been wiped
        didBecomeAvailable     an unlock has brought them back, or cancelled the lock
        accessDenied           a program was refused because of a file's class: the
                               number that Foundation's CocoaError has for it (257
                               reading, 513 writing), the class, path and process

      Examples:
        protectfs events ~/private
        protectfs events --json ~/private | jq .event
      """)

  @Argument(help: .init("Where the store is mounted.", valueName: "mount-point"), completion: .mountPoint)
  var mountPoint: String

  @Flag(help: "Report in JSON, one object a line.")
  var json = false

  /// An event and when it came, as one object.
  private struct Entry: Encodable {
    var time: String
    var event: DaemonEvent

    enum CodingKeys: String, CodingKey { case time }

    func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encode(time, forKey: .time)
      try event.encode(to: encoder)
    }
  }

  func run() throws {
    let daemon = try DaemonConnection(mountPoint: mountPoint)
    do throws(ControlError) {
      try daemon.events { event in
        show(event)
        // A program that reads from a pipe gets each event as it comes.
        StandardStream.flush()
        return true
      }
    } catch {
      guard error.code == .noAnswer else { throw error }
      throw CommandFailure(.noAnswer, "\(mountPoint) was unmounted, or its daemon has ended")
    }
  }

  private func show(_ event: DaemonEvent) {
    let time = Date.now.formatted(.iso8601)
    if json {
      try? JSONOutput.showLine(Entry(time: time, event: event))
    } else {
      print("\(time) \(Self.line(event))")
    }
  }

  private static func line(_ event: DaemonEvent) -> String {
    func letters(_ classes: [ProtectionClass]) -> String { classes.map(\.letter).joined(separator: " ") }
    return switch event {
    case .monitoringBegan(let state): "listening; the mount is \(state.words)"
    case .willBecomeUnavailable(let classes, let seconds):
      "willBecomeUnavailable: \(letters(classes)) in \(seconds.seconds)"
    case .didBecomeUnavailable(let classes): "didBecomeUnavailable: \(letters(classes))"
    case .didBecomeAvailable(let classes): "didBecomeAvailable: \(letters(classes))"
    case .accessDenied(let denial):
      "accessDenied: \(denial.code.rawValue) \(denial.protectionClass.letter) \(denial.path.printable)"
        + " process \(denial.processID)"
    case .eventsDropped(let count): "\(count) events were dropped: this command was too slow"
    }
  }
}
