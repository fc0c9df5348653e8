import Foundation
import Glibc

/// A program that runs beside a test and answers what it is told, a line for a line.
public final class Program {
  /// How a program ended.
  public enum Ending: Equatable, Sendable, CustomStringConvertible {
    case exited(Int32)
    case killed(Int32)

    /// In words.
    public var description: String {
      switch self {
      case .exited(let status): "exit \(status)"
      case .killed(SIGBUS): "SIGBUS"
      case .killed(let signal): "signal \(signal)"
      }
    }
  }

  private let process = Process()
  private let input = Pipe()
  private let output = Pipe()
  private var received = Data()

  /// Starts a program. What it says to its standard error goes where the test's goes, unless it is given another place.
  /// - Parameter environment: added to the test's own.
  public init(
    _ path: String, _ arguments: [String], environment: [String: String] = [:], errors: FileHandle? = nil
  ) throws {
    Self.ignoreBrokenPipes
    process.executableURL = URL(fileURLWithPath: path)
    process.arguments = arguments
    // A program that a lock kills is an outcome, and no reason for a report of some seconds.
    process.environment = ProcessInfo.processInfo.environment.merging(["SWIFT_BACKTRACE": "enable=no"]) { $1 }
      .merging(environment) { $1 }
    process.standardInput = input
    process.standardOutput = output
    if let errors { process.standardError = errors }
    try process.run()
    try? output.fileHandleForWriting.close()
    try? input.fileHandleForReading.close()
  }

  deinit { kill() }

  /// What is written to a program that has ended is an error, not the end of the tests.
  private static let ignoreBrokenPipes: Void = { _ = signal(SIGPIPE, SIG_IGN) }()

  /// Its process.
  public var identifier: Int32 { process.processIdentifier }

  /// How it ended; `nil` while it runs.
  public var ending: Ending? {
    if process.isRunning { return nil }
    return process.terminationReason == .uncaughtSignal
      ? .killed(process.terminationStatus) : .exited(process.terminationStatus)
  }

  /// Says a line to it, and waits for its answer; how it ended where there is none.
  public func ask(_ line: String) -> String {
    tell(line)
    return answer()
  }

  /// Says a line to it, and does not wait.
  public func tell(_ line: String) {
    try? input.fileHandleForWriting.write(contentsOf: Data((line + "\n").utf8))
  }

  /// The next line that it says; how it ended where there is none.
  public func answer(seconds: Double = 60) -> String {
    nextLine(until: .now + .seconds(seconds)) ?? "\(wait())"
  }

  /// Tells it that there is nothing more to come, and returns the lines that it had still to say.
  public func finish() -> [String] {
    try? input.fileHandleForWriting.close()
    var lines: [String] = []
    while let line = nextLine(until: .now + .seconds(60)) { lines.append(line) }
    _ = wait()
    return lines
  }

  /// Waits until it has ended; kills it when that takes too long.
  @discardableResult
  public func wait(seconds: Double = 30) -> Ending {
    let deadline = ContinuousClock.now + .seconds(seconds)
    while true {
      if let ending { return ending }
      if ContinuousClock.now > deadline { send(SIGKILL) }
      usleep(2000)
    }
  }

  /// Sends a signal to it, while it runs.
  public func send(_ signal: Int32) {
    if process.isRunning { _ = Glibc.kill(process.processIdentifier, signal) }
  }

  /// Ends it at once.
  public func kill() {
    send(SIGKILL)
    wait()
  }

  /// A program that was built with the tests.
  public static func beside(_ name: String) -> String {
    URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent()
      .appendingPathComponent(name).path(percentEncoded: false)
  }

  private func nextLine(until deadline: ContinuousClock.Instant) -> String? {
    while true {
      if let end = received.firstIndex(of: UInt8(ascii: "\n")) {
        let line = String(decoding: received[..<end], as: UTF8.self)
        received = Data(received[(end + 1)...])
        return line
      }
      // One that says nothing is stuck, and so would be the test.
      var waiting = pollfd(fd: output.fileHandleForReading.fileDescriptor, events: Int16(POLLIN), revents: 0)
      let left = max(0, (deadline - .now) / .milliseconds(1))
      guard unsafe poll(&waiting, 1, Int32(left)) > 0 else {
        send(SIGKILL)
        return nil
      }
      let data = output.fileHandleForReading.availableData
      if data.isEmpty { return nil }
      received += data
    }
  }
}
