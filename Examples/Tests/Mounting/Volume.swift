import DataProtection
import Foundation
import Glibc
import Synchronization
import Testing

/// A store of its own in a temporary directory, and its mount. Everything goes with ``with(_:)``, also after a failure.
public final class Volume {
  private static let passcode = "correct horse battery staple"

  private let directory: URL
  private var recoveryKey = ""
  private var daemon: Program?
  private var mounts = 0

  private var backing: URL { directory.appendingPathComponent("backing") }
  private var deviceKey: URL { directory.appendingPathComponent("device.key") }

  /// Where it is mounted.
  public var mountPoint: URL { directory.appendingPathComponent("mount") }

  /// The path of its daemon's socket, by Documentation/PROTOCOL.md: the tests run as root.
  public var socket: String {
    let name = mountPoint.path.utf8.dropFirst().map { byte in
      switch Character(Unicode.Scalar(byte)) {
      case "/": "-"
      case "a"..."z", "A"..."Z", "0"..."9", "_", ".": String(Unicode.Scalar(byte))
      default: "\\x" + String(byte, radix: 16)
      }
    }
    return "/run/protectfs/\(name.joined()).sock"
  }

  /// A URL in the mounted tree.
  public func url(_ path: String) -> URL { mountPoint.appendingPathComponent(path) }

  /// Makes a store, mounts and unlocks it, calls `body`, and takes it all away again.
  public static func with(_ body: (Volume) async throws -> Void) async throws {
    Leftovers.remove
    let volume = try Volume()
    let result: Result<Void, any Error>
    do {
      try volume.mount()
      try volume.unlock()
      result = .success(try await body(volume))
    } catch {
      result = .failure(error)
    }
    volume.tearDown()
    try result.get()
  }

  private init() throws {
    directory = try Leftovers.makeDirectory()
    try FileManager.default.createDirectory(at: mountPoint, withIntermediateDirectories: false)
    let passcodeFile = directory.appendingPathComponent("passcode")
    try Data(Self.passcode.utf8).write(to: passcodeFile)
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: passcodeFile.path)
    let made = try Program(
      Obstacle.protectfs,
      ["init", backing.path, "--passcode-file", passcodeFile.path, "--device-key", deviceKey.path])
    let said = made.finish()
    try #require(made.wait() == .exited(0), "init: \(said)")
    let words = said.flatMap { $0.split(separator: " ") }
    recoveryKey = String(try #require(words.first { $0.count == 44 && $0.split(separator: "-").count == 9 }))
  }

  // MARK: The mount

  /// Mounts with a daemon in the foreground, and waits until it answers.
  public func mount() throws {
    mounts += 1
    let log = directory.appendingPathComponent("log.\(mounts)")
    let arguments = ["mount", backing.path, mountPoint.path, "--foreground", "--device-key", deviceKey.path]
    try Data().write(to: log)
    let program = try Program(Obstacle.protectfs, arguments, errors: FileHandle(forWritingTo: log))
    daemon = program
    let deadline = ContinuousClock.now + .seconds(30)
    while !isMounted || (try? state) == nil {
      let said = (try? String(contentsOf: log, encoding: .utf8)) ?? ""
      try #require(program.ending == nil && ContinuousClock.now < deadline, "the mount does not come up: \(said)")
      usleep(2000)
    }
  }

  /// Whether the kernel lists it; it does so while the daemon is dead too.
  private var isMounted: Bool { MountedFileSystem.all().contains { $0.mountPoint == mountPoint.path } }

  /// Kills the daemon, as a crash would end it, and takes its mount away.
  public func crash() throws {
    daemon?.send(SIGKILL)
    // A thread of it that waits for the kernel to write pages back, which would be the daemon's to take, does not die
    // before its connection is ended.
    try Self.run("/bin/umount", "-f", mountPoint.path)
    if isMounted { try Self.run("/bin/umount", "-l", mountPoint.path) }
    daemon?.wait()
    daemon = nil
    try #require(!isMounted)
  }

  private func tearDown() {
    for _ in 0..<8 where isMounted { _ = try? Self.run("/bin/umount", "-l", mountPoint.path) }
    // A lazily unmounted daemon lives until the last descriptor is closed, which a failed test may have left open.
    daemon?.send(SIGTERM)
    daemon?.wait(seconds: 5)
    Leftovers.remove(directory)
  }

  @discardableResult
  private static func run(_ path: String, _ arguments: String...) throws -> Program.Ending {
    let program = try Program(path, arguments, errors: .nullDevice)
    return program.wait()
  }

  /// Erases the keys of a class, as a person does with the command.
  public func erase(_ protectionClass: ProtectionClass) throws {
    let passcodeFile = directory.appendingPathComponent("passcode").path
    let erased = try Program(
      Obstacle.protectfs,
      ["erase", "--class", protectionClass.name, "--yes", "--passcode-file", passcodeFile, mountPoint.path])
    let said = erased.finish()
    try #require(erased.wait() == .exited(0), "erase: \(said)")
  }

  // MARK: Lock and unlock

  /// The state that the daemon tells.
  public var state: LockState {
    get throws {
      var daemon = try DaemonConnection(mountPoint: mountPoint.path)
      return try daemon.status().state
    }
  }

  /// Unlocks with the recovery key: a passcode takes scrypt each time.
  public func unlock() throws {
    var daemon = try DaemonConnection(mountPoint: mountPoint.path)
    try unsafe Array(recoveryKey.utf8).withUnsafeBytes { bytes in try unsafe daemon.unlock(.recoveryKey(bytes)) }
  }

  /// Locks; returns when the lock has taken effect.
  public func lock(gracePeriod: Duration = .zero) throws {
    var daemon = try DaemonConnection(mountPoint: mountPoint.path)
    try daemon.lock(gracePeriod: gracePeriod)
  }

  /// Announces a lock, and returns.
  public func announceLock(gracePeriod: Duration) throws {
    var daemon = try DaemonConnection(mountPoint: mountPoint.path)
    try daemon.lock(gracePeriod: gracePeriod, waiting: false)
  }
}
