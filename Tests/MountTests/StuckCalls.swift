import Glibc
import ProtectfsIO
import SystemPackage
import Testing

/// A system call on a separate thread, since it may hang.
final class PendingCall: Sendable {
  private enum Outcome {
    case pending, succeeded
    case failed(Errno)
  }

  private let outcome = Monitor(.test, Outcome.pending)

  init(_ body: @escaping @Sendable () throws(Errno) -> Void) {
    let outcome = outcome
    Thread(name: "call") {
      do throws(Errno) {
        try body()
        outcome.update { $0 = .succeeded }
      } catch {
        outcome.update { $0 = .failed(error) }
      }
    }.detach()
  }

  var isPending: Bool {
    outcome.read { if case .pending = $0 { true } else { false } }
  }

  /// Waits until it has returned, and returns its error.
  ///
  /// - Throws: `EDEADLK` if it still hangs.
  func result(seconds: Double = 60) throws(Errno) -> Errno? {
    let end = ContinuousClock.now + .seconds(seconds)
    let outcome = outcome.wait { outcome, deadline -> Outcome? in
      if case .pending = outcome, ContinuousClock.now < end {
        deadline = end
        return nil
      }
      return outcome
    }
    switch outcome {
    case .pending: throw Errno(rawValue: EDEADLK)
    case .succeeded: return nil
    case .failed(let error): return error
    }
  }
}

extension Volume {
  /// A process that locks by the command, as a user would, on request. It is started before the store hangs: a new
  /// process closes the files that it inherits, which waits for data written to them.
  func waitingLock() throws -> WaitingCommand {
    try waitingCommand("lock", "--now")
  }

  /// The same of another command about the mount.
  func waitingCommand(_ arguments: String...) throws -> WaitingCommand {
    try WaitingCommand(self, arguments)
  }

  /// A file of class A with pages that were written to disk, open and mapped.
  func secret(_ name: String, _ number: Int, count: Int = 64 * 1024) throws -> SecretFile {
    try SecretFile(path(name), number, count: count)
  }
}

struct WaitingCommand {
  private let program: Program
  private let start: PathName

  fileprivate init(_ volume: Volume, _ arguments: [String]) throws {
    start = volume.directory.appending("start")
    program = try Program(
      [
        "sh", "-c",
        "until [ -e '\(start)' ]; do sleep 0.02; done; exec '\(Command.path)' "
          + "\(arguments.joined(separator: " ")) '\(volume.mountPoint)'",
      ], output: volume.directory.appending("output"))
  }

  /// Lets it go, and returns how that ended.
  func run() throws -> Program.Result {
    try start.write("")
    return Program.Result(ending: program.wait(), output: program.output)
  }
}

/// A file of class A, open and mapped.
final class SecretFile: Sendable {
  let path: PathName
  let file: OpenFile
  let mapping: Mapping
  let contents: [UInt8]
  let inode: UInt64

  init(_ path: PathName, _ number: Int, count: Int) throws {
    self.path = path
    contents = pattern(number, count: count)
    file = try OpenFile(path, O_RDWR | O_CREAT)
    try path.setProtectionClass(.complete)
    try file.write(contents, at: 0)
    try file.synchronize()
    mapping = try Mapping(file, count: count)
    inode = try file.status().inode
  }

  /// Makes all its pages dirty, with new contents.
  func makeDirty() throws {
    try file.write(pattern(999_999, count: contents.count), at: 0)
  }

  /// Its contents cannot be read, neither through what was open before nor through a new open, and this is reported at
  /// once.
  func expectUnreadable(_ comment: Comment = "", sourceLocation: SourceLocation = #_sourceLocation) throws {
    let calls: [(String, Errno, @Sendable () throws(Errno) -> Void)] = [
      ("read", .permissionDenied, { [self] () throws(Errno) in _ = try file.read(at: 0, count: 16) }),
      ("mapping", .badAddress, { [self] () throws(Errno) in _ = try mapping.read(at: 4096, count: 16) }),
      ("open", .permissionDenied, { [self] () throws(Errno) in _ = try OpenFile(path, O_RDONLY) }),
      ("truncate", .permissionDenied, { [self] () throws(Errno) in try file.truncate(to: 0) }),
    ]
    for (name, expected, call) in calls {
      let error = try PendingCall(call).result()
      #expect(error == expected, "\(comment) \(path): \(name)", sourceLocation: sourceLocation)
    }
    #expect(try mapping.residentPages() == 0, "\(comment) \(path)", sourceLocation: sourceLocation)
  }
}
