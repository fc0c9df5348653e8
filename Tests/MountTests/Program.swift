import CSystemCalls
import Glibc
import ProtectfsIO
import Synchronization
import SystemPackage

/// A program that runs as a child process, with its output in a file.
final class Program: Sendable {
  let identifier: CInt
  private let outputPath: PathName
  private let ended = Mutex<Ending?>(nil)

  enum Ending: Equatable {
    case exited(CInt)
    case killed(CInt)
  }

  struct Result {
    let ending: Ending
    let output: String
    var succeeded: Bool { ending == .exited(0) }
  }

  /// Starts a program from the search path. `environment` is added to the test runner's own.
  init(
    _ arguments: [String], in directory: String? = nil, environment: [String: String] = [:], output: PathName
  ) throws(Errno) {
    let variables = Self.environment(environment)
    var list = unsafe arguments.map { unsafe strdup($0) } + [nil]
    var block = unsafe variables.map { unsafe strdup($0) } + [nil]
    defer {
      unsafe list.forEach { unsafe free($0) }
      unsafe block.forEach { unsafe free($0) }
    }
    let path = directory.map { PathName($0).terminated.map { CChar(bitPattern: $0) } }
    identifier = try check(
      unsafe output.withCString { output in
        unsafe list.withUnsafeMutableBufferPointer { list in
          unsafe block.withUnsafeMutableBufferPointer { block in
            if let path {
              unsafe calls_spawn(list.baseAddress!, block.baseAddress!, path, output)
            } else {
              unsafe calls_spawn(list.baseAddress!, block.baseAddress!, nil, output)
            }
          }
        }
      })
    outputPath = output
  }

  /// Its standard output and error so far.
  var output: String { String(decoding: (try? outputPath.contents()) ?? [], as: UTF8.self) }

  /// How it ended; `nil` while it runs.
  func poll() -> Ending? {
    ended.withLock { ended in
      if let ended { return ended }
      var status: CInt = 0
      guard unsafe calls_wait(identifier, 0, &status) == 0 else { return nil }
      ended = status & 0x7f == 0 ? .exited((status >> 8) & 0xff) : .killed(status & 0x7f)
      return ended
    }
  }

  /// Waits until it has ended, and kills it if that takes too long.
  func wait(seconds: Double = 120) -> Ending {
    let deadline = ContinuousClock.now + .seconds(seconds)
    var pause: UInt32 = 200
    while true {
      if let ending = poll() { return ending }
      if ContinuousClock.now > deadline { send(SIGKILL) }
      usleep(pause)
      pause = min(pause * 2, 10_000)
    }
  }

  /// Sends a signal to this process, and no other, while it runs.
  func send(_ signal: CInt) {
    if poll() == nil { calls_kill(identifier, signal) }
  }

  private static let count = Atomic<Int>(0)

  /// Runs a program and waits for it.
  static func run(
    _ arguments: [String], in directory: String? = nil, environment: [String: String] = [:], seconds: Double = 120
  ) throws(Errno) -> Result {
    let number = count.add(1, ordering: .relaxed).newValue
    let output = PathName("/tmp/protectfs-tests-output.\(getpid()).\(number)")
    defer { try? output.unlink() }
    let program = try Program(arguments, in: directory, environment: environment, output: output)
    let ending = program.wait(seconds: seconds)
    return Result(ending: ending, output: program.output)
  }

  /// Whether a program is on the path.
  static func isInstalled(_ name: String) -> Bool {
    let path = unsafe getenv("PATH").map { unsafe String(cString: $0) } ?? ""
    return path.split(separator: ":").contains { unsafe access("\($0)/\(name)", X_OK) == 0 }
  }

  private static func environment(_ added: [String: String]) -> [String] {
    var variables: [String] = []
    var pointer = unsafe environ
    while let entry = unsafe pointer.pointee {
      unsafe variables.append(String(cString: entry))
      unsafe pointer += 1
    }
    variables.removeAll { variable in added.keys.contains { variable.hasPrefix($0 + "=") } }
    return variables + added.map { "\($0.key)=\($0.value)" }
  }
}

/// The open files of a process.
enum Descriptors {
  static func of(_ process: CInt) throws -> [String] {
    let directory = PathName("/proc/\(process)/fd")
    return try directory.names().map { name in
      String(decoding: (try? directory.appending("\(name)").symbolicLinkTarget()) ?? [], as: UTF8.self)
    }
  }
}
