import Glibc
import LinuxIO
import SystemPackage

/// A child process that becomes a daemon, and the parent that waits until it is ready.
///
/// The child is made before any thread starts and before any secret is in memory: neither would survive fork(2) as it
/// should. It then waits for the parent, which can still ask the user.
enum DetachedProcess {
  /// Forks. The parent runs `prepare`, lets the child go on and waits for it; the child runs `serve` and never returns.
  ///
  /// - Parameters:
  ///   - prepare: what must be done before the child goes on; runs where the terminal is.
  ///   - serve: the daemon; it calls its argument when it is ready.
  /// - Throws: what `prepare` throws, or the failure of the child.
  static func launch(prepare: () throws -> Void, serve: (() -> Void) throws -> Void) throws {
    var ends: (CInt, CInt) = (-1, -1)
    let result = unsafe withUnsafeMutablePointer(to: &ends) { pointer in
      unsafe pointer.withMemoryRebound(to: CInt.self, capacity: 2) {
        unsafe socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, $0)
      }
    }
    guard result == 0 else { throw Errno(rawValue: errno) }
    // Nothing that waits to be printed must be printed by both.
    fflush(nil)
    if try Process.fork() == 0 {
      close(ends.0)
      becomeDaemon(keeping: ends.1, serve)
    }
    close(ends.1)
    defer { close(ends.0) }
    try prepare()
    _ = unsafe send(ends.0, [1], 1, CInt(MSG_NOSIGNAL))
    try awaitOutcome(ends.0)
  }

  // MARK: The child

  private static func becomeDaemon(keeping channel: CInt, _ serve: (() -> Void) throws -> Void) -> Never {
    setsid()
    closeInherited(except: channel)
    var signal: UInt8 = 0
    // The parent has given up if it says nothing.
    guard unsafe recv(channel, &signal, 1, 0) == 1 else { _exit(1) }
    guard unsafe chdir("/") == 0 else { _exit(1) }
    do {
      try serve {
        redirectStandardStreams()
        tell(channel, ExitStatus.success, "")
        close(channel)
      }
    } catch {
      let failure = CommandFailure(error) ?? CommandFailure(.failure, "\(error)")
      tell(channel, failure.status, failure.message)
      exit(failure.status.rawValue)
    }
    exit(ExitStatus.success.rawValue)
  }

  /// Closes what the caller's shell had open, which would otherwise stay open as long as the mount.
  private static func closeInherited(except channel: CInt) {
    guard let directory = try? Descriptor.open("/proc/self/fd", [.readOnly, .directory]) else { return }
    let names = (try? DirectoryNames(directory).all(limit: 65_536)) ?? []
    for name in names {
      if let number = CInt(name.description), number > STDERR_FILENO, number != channel { close(number) }
    }
  }

  private static func redirectStandardStreams() {
    fflush(nil)
    let null = unsafe open("/dev/null", O_RDWR)
    guard null >= 0 else { return }
    for stream in STDIN_FILENO...STDERR_FILENO { dup2(null, stream) }
    if null > STDERR_FILENO { close(null) }
  }

  private static func tell(_ channel: CInt, _ status: ExitStatus, _ message: String) {
    let bytes = [UInt8(status.rawValue)] + Array(message.utf8)
    _ = unsafe send(channel, bytes, bytes.count, CInt(MSG_NOSIGNAL))
  }

  // MARK: The parent

  private static func awaitOutcome(_ channel: CInt) throws(CommandFailure) {
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = unsafe recv(channel, &chunk, chunk.count, 0)
      if count < 0 && errno == EINTR { continue }
      guard count > 0 else { break }
      bytes += chunk[..<count]
    }
    guard let first = bytes.first, let status = ExitStatus(rawValue: Int32(first)) else {
      throw CommandFailure(.failure, "the daemon ended before it was ready; its log says why")
    }
    guard status == .success else {
      throw CommandFailure(status, String(decoding: bytes.dropFirst(), as: UTF8.self))
    }
  }
}
