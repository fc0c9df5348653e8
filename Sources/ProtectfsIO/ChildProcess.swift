import ProtectfsLibc
import SystemPackage

/// A program that was started, and its output (posix_spawn(3)). Its process ID stays valid until ``reap()``.
package struct ChildProcess: Sendable {
  /// What a program inherits from the process that starts it.
  package enum Surroundings {
    /// Everything except standard output, which that process reads.
    case inherited
    /// Everything except its input, and its output and standard error, which the starting process reads.
    case inheritedBut(input: CInt)
    /// Only the given variables. The program is in a process group of its own, with no signal blocked or ignored, and
    /// has no input. The starting process reads its standard output and standard error.
    case own(environment: [String])
  }

  /// How a program ended.
  package enum Ending: Sendable, Equatable {
    case exited(Int32)
    case killed(Int32)

    init(_ status: Int32) {
      self = status & 0x7f == 0 ? .exited((status >> 8) & 0xff) : .killed(status & 0x7f)
    }
  }

  private let process: pid_t
  /// The program's output.
  package let output: SharedDescriptor

  /// Starts a program by its path. Where it inherits the environment, a name is looked for in the search path.
  package init(_ path: String, _ arguments: [String], _ surroundings: Surroundings) throws(Errno) {
    let ends = try Self.pipe()
    output = SharedDescriptor(Descriptor(owning: ends.read))
    let input = Descriptor(owning: ends.write)
    process = try Self.spawn(path, arguments, surroundings, output: input.rawValue)
  }

  private static func pipe() throws(Errno) -> (read: CInt, write: CInt) {
    var ends: [CInt] = [-1, -1]
    try call("pipe", unsafe ProtectfsLibc.pipe(&ends))
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    return (ends[0], ends[1])
  }

  /// Runs a program from the search path whose input are these bytes, at most a page, and waits for it, but for nothing
  /// that it leaves behind.
  ///
  /// - Returns: how it ended, `nil` if the kernel does not say; what it printed; and whether it took its input.
  package static func run(
    _ program: String, _ arguments: [String], input bytes: UnsafeRawBufferPointer
  ) throws(Errno) -> (ending: Ending?, output: String, hasReadInput: Bool) {
    let ends = try pipe()
    let reading = Descriptor(owning: ends.read)
    do {
      let writing = Descriptor(owning: ends.write)
      if let error = unsafe StandardStream.writeAll(writing.rawValue, bytes) { throw error }
    }
    let child = try ChildProcess(program, arguments, .inheritedBut(input: reading.rawValue))
    let process: ProcessDescriptor
    do throws(Errno) {
      process = try ProcessDescriptor(child.process)
    } catch {
      kill(child.process, SIGKILL)
      _ = child.reap()
      throw error
    }
    var output: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 4096)
    while true {
      // What has ended has printed all.
      let hasEnded = process.waitForEnd(atMost: .zero)
      let readable = Poll.Event.readable(child.output.descriptor.rawValue)
      guard try Poll.wait(for: readable, atMost: hasEnded ? .zero : .milliseconds(100)) == [true] else {
        if hasEnded { break }
        continue
      }
      let count = try unsafe chunk.withMutableBytes { (buffer) throws(Errno) in
        try unsafe child.output.descriptor.readNext(into: buffer)
      }
      if count == 0 { break }
      output += chunk[..<count]
    }
    let ending = child.reap()
    // The other end is closed, so that nothing is waited for.
    let rest = try unsafe chunk.withMutableBytes { (buffer) throws(Errno) in
      try unsafe reading.readNext(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<1]))
    }
    return (ending, String(decoding: output, as: UTF8.self), rest == 0)
  }

  /// Runs a program from the search path, which inherits everything, and waits for it. Returns how it ended; `nil` if
  /// the kernel does not say.
  ///
  /// - Throws: the error of starting it.
  package static func run(_ program: String, _ arguments: [String]) throws(Errno) -> Ending? {
    Process.waitForEnd(of: try spawn(program, arguments, .inherited, output: nil))
  }

  private static func spawn(
    _ program: String, _ arguments: [String], _ surroundings: Surroundings, output: CInt?
  ) throws(Errno) -> pid_t {
    var actions = unsafe posix_spawn_file_actions_t()
    unsafe posix_spawn_file_actions_init(&actions)
    defer { unsafe posix_spawn_file_actions_destroy(&actions) }
    var attributes = posix_spawnattr_t()
    unsafe posix_spawnattr_init(&attributes)
    defer { unsafe posix_spawnattr_destroy(&attributes) }
    if let output { unsafe posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO) }
    if case .inheritedBut(let input) = surroundings {
      unsafe posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO)
      if let output { unsafe posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO) }
    }
    var child = pid_t()
    let failure = unsafe withCStrings([program] + arguments) { arguments in
      guard case .own(let environment) = surroundings else {
        return unsafe posix_spawnp(&child, program, &actions, &attributes, arguments, environ)
      }
      unsafe posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
      if let output { unsafe posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO) }
      var signals = sigset_t()
      unsafe sigemptyset(&signals)
      unsafe posix_spawnattr_setsigmask(&attributes, &signals)
      unsafe sigfillset(&signals)
      unsafe posix_spawnattr_setsigdefault(&attributes, &signals)
      let flags = CInt(POSIX_SPAWN_SETPGROUP) | CInt(POSIX_SPAWN_SETSIGMASK) | CInt(POSIX_SPAWN_SETSIGDEF)
      unsafe posix_spawnattr_setflags(&attributes, Int16(flags))
      return unsafe withCStrings(environment) {
        unsafe posix_spawn(&child, program, &actions, &attributes, arguments, $0)
      }
    }
    guard failure == 0 else { throw Errno(rawValue: failure) }
    return child
  }

  /// Waits until the program has ended. Its process ID is not reused yet, so signals cannot reach another process.
  package func waitForEnd() {
    var information = unsafe siginfo_t()
    _ = try? call("waitid", unsafe waitid(P_PID, id_t(process), &information, WEXITED | WNOWAIT))
  }

  /// Asks the program and its descendants to end (SIGTERM). The program must have a process group of its own, as for
  /// ``killGroup()``.
  package func endGroup() { kill(-process, SIGTERM) }

  /// Kills the program and its descendants (SIGKILL).
  package func killGroup() { kill(-process, SIGKILL) }

  /// Waits until the program has ended and returns how; `nil` if the kernel does not say (waitpid(2)). After this, no
  /// signal may be sent to it.
  package func reap() -> Ending? { Process.waitForEnd(of: process) }

  private static let longestLine = 1024

  /// Calls `take` with each line of output, or with parts of a long line, until the output is closed or `isOver`, which
  /// is called periodically, returns `true`.
  package func readLines(_ take: (String) -> Void, isOver: () -> Bool) {
    var line: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 4096)
    func end() {
      if !line.isEmpty { take(String(decoding: line, as: UTF8.self)) }
      line = []
    }
    while !isOver() {
      let readable = Poll.Event.readable(output.descriptor.rawValue)
      guard (try? Poll.wait(for: readable, atMost: .milliseconds(250))) == [true] else { continue }
      let count = unsafe chunk.withUnsafeMutableBytes { unsafe (try? output.descriptor.readNext(into: $0)) ?? 0 }
      guard count > 0 else { break }
      for byte in chunk[..<count] {
        if byte == UInt8(ascii: "\n") { end() } else { line.append(byte) }
        if line.count >= Self.longestLine { end() }
      }
    }
    end()
  }
}

extension Process {
  /// Waits until a child process has ended, and returns how; `nil` if there is no such child (waitpid(2)).
  @discardableResult
  static func waitForEnd(of child: Int32) -> ChildProcess.Ending? {
    var status: Int32 = 0
    return (try? call("waitpid", unsafe waitpid(child, &status, 0))).map { _ in ChildProcess.Ending(status) }
  }
}

/// Calls `body` with strings in the form that C functions expect: a list that ends with a null pointer.
func withCStrings<Result>(
  _ strings: [String], _ body: ([UnsafeMutablePointer<CChar>?]) -> Result
) -> Result {
  let pointers: [UnsafeMutablePointer<CChar>?] = unsafe strings.map { unsafe strdup($0) } + [nil]
  defer { unsafe pointers.forEach { unsafe free($0) } }
  return unsafe body(pointers)
}
