import Glibc
import SystemPackage

/// A hook that runs, in a process group of its own. Its process stays known until ``reap()``.
struct HookScript: Sendable {
  private let process: pid_t
  /// What it prints comes out here.
  private let output: CInt

  /// Starts a script with just this environment, nothing to read, and what it prints to be had by
  /// ``readLines(_:isOver:)``.
  init(_ path: String, environment: [String]) throws(Errno) {
    var ends: (CInt, CInt) = (-1, -1)
    let result = unsafe withUnsafeMutablePointer(to: &ends) { pointer in
      unsafe pointer.withMemoryRebound(to: CInt.self, capacity: 2) { unsafe pipe($0) }
    }
    guard result == 0 else { throw Errno(rawValue: errno) }
    for end in [ends.0, ends.1] { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    var child = pid_t()
    let failure = Self.spawn(path, environment, output: ends.1, &child)
    close(ends.1)
    guard failure == 0 else {
      close(ends.0)
      throw Errno(rawValue: failure)
    }
    process = child
    output = ends.0
  }

  private static func spawn(
    _ path: String, _ environment: [String], output: CInt, _ child: inout pid_t
  ) -> CInt {
    var actions = unsafe posix_spawn_file_actions_t()
    unsafe posix_spawn_file_actions_init(&actions)
    defer { unsafe posix_spawn_file_actions_destroy(&actions) }
    unsafe posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
    unsafe posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO)
    unsafe posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO)

    var attributes = posix_spawnattr_t()
    unsafe posix_spawnattr_init(&attributes)
    defer { unsafe posix_spawnattr_destroy(&attributes) }
    // This process blocks some signals and ignores one, which is not for scripts.
    var signals = sigset_t()
    unsafe sigemptyset(&signals)
    unsafe posix_spawnattr_setsigmask(&attributes, &signals)
    unsafe sigfillset(&signals)
    unsafe posix_spawnattr_setsigdefault(&attributes, &signals)
    let flags = CInt(POSIX_SPAWN_SETPGROUP) | CInt(POSIX_SPAWN_SETSIGMASK) | CInt(POSIX_SPAWN_SETSIGDEF)
    unsafe posix_spawnattr_setflags(&attributes, Int16(flags))

    var arguments: [UnsafeMutablePointer<CChar>?] = unsafe [strdup(path), nil]
    var variables: [UnsafeMutablePointer<CChar>?] = unsafe environment.map { unsafe strdup($0) } + [nil]
    defer {
      unsafe arguments.forEach { unsafe free($0) }
      unsafe variables.forEach { unsafe free($0) }
    }
    return unsafe posix_spawn(&child, path, &actions, &attributes, &arguments, &variables)
  }

  /// How a script ended.
  enum Ending: Sendable, Equatable {
    case exited(Int32)
    case killed(Int32)
  }

  /// Waits until the script has ended. Its number stays taken, so that signals reach no stranger.
  func waitForEnd() {
    var information = unsafe siginfo_t()
    while unsafe waitid(P_PID, id_t(process), &information, WEXITED | WNOWAIT) != 0 && errno == EINTR {}
  }

  /// Sends a signal to the script and what it has started.
  func send(_ signal: Int32) {
    kill(-process, signal)
  }

  /// How the script ended, which it has; nothing may be sent to it any more.
  func reap() -> Ending {
    var status: Int32 = 0
    while unsafe waitpid(process, &status, 0) < 0 && errno == EINTR {}
    return status & 0x7f == 0 ? .exited((status >> 8) & 0xff) : .killed(status & 0x7f)
  }

  /// Calls `take` with each line that is printed, until nobody can print any more, or `isOver`, which is asked now and
  /// then, says so: once.
  func readLines(_ take: (String) -> Void, isOver: () -> Bool) {
    defer { close(output) }
    var line: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 4096)
    func end() {
      if !line.isEmpty { take(String(decoding: line, as: UTF8.self)) }
      line = []
    }
    while !isOver() {
      var entry = pollfd(fd: output, events: Int16(POLLIN), revents: 0)
      guard unsafe poll(&entry, 1, 250) > 0 else { continue }
      let count = unsafe chunk.withUnsafeMutableBytes { unsafe read(output, $0.baseAddress, $0.count) }
      if count < 0 && errno == EINTR { continue }
      guard count > 0 else { break }
      for byte in chunk[..<count] {
        if byte == UInt8(ascii: "\n") { end() } else { line.append(byte) }
        if line.count >= Self.longestLine { end() }
      }
    }
    end()
  }

  private static let longestLine = 1024
}
