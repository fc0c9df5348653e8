import Cryptography
import Glibc
import MountDaemon
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import Synchronization
import SystemPackage
import Testing

/// A store in a temporary directory, and its mount. ``with(_:_:)`` removes everything, also after a failure.
final class Volume: Sendable {
  static let passcode = "correct horse battery staple"

  let directory: PathName
  let recoveryKey: String
  /// Added to the environment of the daemon.
  private let environment: [String: String]
  private let daemon = Mutex<Program?>(nil)
  private let mounts = Mutex(0)

  var backing: PathName { directory.appending("backing") }
  var mountPoint: PathName { directory.appending("mount") }
  var deviceKey: PathName { directory.appending("device.key") }
  var passcodeFile: PathName { directory.appending("passcode") }

  /// A path in the mounted tree.
  func path(_ name: String) -> PathName { mountPoint.appending(name) }

  /// Creates a store, mounts and unlocks it, calls `body`, and removes everything again.
  static func with(
    _ options: [String] = [], defaultClass: ProtectionClass = .standard, unlocked: Bool = true,
    _ body: (Volume) throws -> Void
  ) throws {
    try store(defaultClass: defaultClass) { volume in
      try volume.mount(options)
      if unlocked { try volume.unlock() }
      try body(volume)
    }
  }

  /// Creates a store, calls `body`, and removes whatever is there then. Its passcode has the lowest cost, unless `init`
  /// creates the store.
  static func store(
    defaultClass: ProtectionClass = .standard, initOptions: [String]? = nil,
    environment: (PathName) -> [String: String] = { _ in [:] },
    prepare: (PathName) throws -> Void = { _ in }, _ body: (Volume) throws -> Void
  ) throws {
    TemporaryDirectory.removeLeftovers
    volumes.withLock { $0 += 1 }
    defer { volumes.withLock { $0 -= 1 } }
    let directory = try TemporaryDirectory.make()
    defer { TemporaryDirectory.remove(directory) }
    try prepare(directory)
    let volume = try Volume(in: directory, defaultClass, initOptions, environment: environment(directory))
    defer {
      volume.tearDown()
      volume.expectLockOrder()
    }
    do { try body(volume) } catch let error as ControlError where error.code == .noAnswer {
      Issue.record("\(error)\n\(volume.report)")
      throw error
    }
  }

  /// What became of the daemon, and all that its log and those before it have.
  private var report: String {
    let ending = daemon.withLock { $0.map { "\($0.poll().map { "\($0)" } ?? "it runs")" } ?? "none runs" }
    return "The daemon: \(ending)\n" + logs.joined(separator: "\n--\n")
  }

  private init(
    in directory: PathName, _ defaultClass: ProtectionClass, _ options: [String]?, environment: [String: String]
  ) throws {
    self.directory = directory
    self.environment = environment
    try directory.appending("passcode").write(Self.passcode)
    try directory.appending("passcode").setMode(0o600)
    try directory.appending("mount").makeDirectory()
    if let options {
      recoveryKey = try Self.initialise(directory, ["--default-class", defaultClass.name] + options)
    } else {
      recoveryKey = try Self.create(directory, defaultClass)
    }
  }

  /// Creates a store. If another volume exists already, it has other keys.
  private static func create(_ directory: PathName, _ defaultClass: ProtectionClass) throws -> String {
    let backing = directory.appending("backing")
    if !backing.exists { try backing.makeDirectory(mode: 0o700) }
    let isFirst = volumes.withLock { $0 == 1 }
    let store = try isFirst ? NewStore.shared(defaultClass) : NewStore(defaultClass)
    try store.write(to: backing, deviceKey: directory.appending("device.key"))
    return store.recoveryKey
  }

  /// The number of volumes that exist now.
  private static let volumes = Mutex(0)

  private static func initialise(_ directory: PathName, _ options: [String]) throws -> String {
    let made = try Command.run(
      [
        "init", directory.appending("backing").description, "--passcode-file",
        directory.appending("passcode").description, "--device-key", directory.appending("device.key").description,
      ] + options)
    try #require(made.succeeded, "init: \(made.output)")
    let words = made.output.split { $0 == " " || $0 == "\n" }
    return String(try #require(words.first { $0.count == 44 && $0.split(separator: "-").count == 9 }))
  }

  /// The lowest cost that the format permits.
  static let lowestCost = ScryptParameters(logN: 16, r: 8, p: 1)

  // MARK: The mount

  var processID: CInt { daemon.withLock { $0?.identifier ?? 0 } }

  /// The daemon's log since it was mounted.
  var log: String { daemon.withLock { $0?.output ?? "" } }

  /// Mounts with a daemon in the foreground, and waits until it answers. `launcher` is a program that starts it.
  func mount(_ options: [String] = [], through launcher: [String] = []) throws {
    let program = try start(options, through: launcher)
    daemon.withLock { $0 = program }
    let deadline = ContinuousClock.now + patience
    while true {
      if isMounted, (try? status()) != nil { return }
      if let ending = program.poll() {
        daemon.withLock { $0 = nil }
        throw MountFailure(ending: ending, output: program.output)
      }
      try #require(ContinuousClock.now < deadline, "the mount does not come up: \(program.output)")
      usleep(2000)
    }
  }

  /// Starts the command that mounts, without waiting; at another mount point if one is given.
  func start(
    _ options: [String] = [], at mountPoint: PathName? = nil, through launcher: [String] = []
  ) throws -> Program {
    let mountPoint = mountPoint ?? self.mountPoint
    let number = mounts.withLock { count in
      count += 1
      return count
    }
    return try Program(
      launcher + [
        Command.path, "mount", backing.description, mountPoint.description, "--foreground", "--device-key",
        deviceKey.description,
      ] + (options.contains("-o") ? options : options + ["-o", "allow_other"]) + Self.optionsOfAll,
      environment: environment, output: directory.appending("log.\(number)"))
  }

  /// What `PROTECTFS_TEST_MOUNT_OPTIONS` adds to the options of all mounts.
  static let optionsOfAll =
    unsafe getenv("PROTECTFS_TEST_MOUNT_OPTIONS").map {
      ["-o", unsafe String(cString: $0)]
    } ?? []

  var isMounted: Bool { MountedFileSystem.all().contains { $0.mountPoint == mountPoint.description } }

  /// Unmounts, and waits until the daemon has ended.
  func unmount() throws {
    try mountPoint.unmount(isLazy: false)
    try requireGoodEnd()
  }

  private func requireGoodEnd() throws {
    let ending = waitForDaemon()
    let log = logs.last?.suffix(2000) ?? ""
    try #require(ending == .exited(0), "the daemon: \(ending.map { "\($0)" } ?? "still there"); \(log)")
  }

  /// Waits until the daemon has ended.
  @discardableResult
  func waitForDaemon(seconds: Double = 60) -> Program.Ending? {
    let program = daemon.withLock { program in
      defer { program = nil }
      return program
    }
    return program?.wait(seconds: seconds)
  }

  /// Unmounts as soon as a file that was just closed no longer keeps the mount busy.
  func unmountOnceIdle() throws {
    let deadline = ContinuousClock.now + patience
    while true {
      do throws(Errno) {
        try mountPoint.unmount(isLazy: false)
        break
      } catch {
        guard error == .resourceBusy, ContinuousClock.now < deadline else { throw error }
        usleep(1000)
      }
    }
    try requireGoodEnd()
  }

  /// Unmounts and mounts again: before first unlock, with empty caches.
  func remount(_ options: [String] = []) throws {
    try unmount()
    try mount(options)
  }

  /// Kills the daemon, like a crash.
  func kill() {
    let program = daemon.withLock { program in
      defer { program = nil }
      return program
    }
    program?.send(SIGKILL)
    _ = program?.wait()
  }

  /// Waits until the kernel has ended the connection of a daemon that was killed. A daemon's rings end after it.
  func waitForEndOfConnection() throws {
    try #require(
      eventually { failure(of: { () throws(Errno) in _ = try mountPoint.names() }) == .socketNotConnected })
  }

  /// The logs of all its daemons.
  private var logs: [String] {
    (0...mounts.withLock { $0 }).map { number in
      String(decoding: (try? directory.appending("log.\(number)").contents()) ?? [], as: UTF8.self)
    }
  }

  /// A daemon that broke the order of locks has said so before it ended.
  private func expectLockOrder() {
    for log in logs {
      for line in log.split(separator: "\n") where line.hasPrefix("Lock order:") { Issue.record("\(line)") }
    }
  }

  private func tearDown() {
    for _ in 0..<8 where isMounted { try? mountPoint.unmount(isLazy: true) }
    guard let program = daemon.withLock({ $0 }) else { return }
    // A lazily unmounted daemon lives until the last descriptor is closed, which a failed test may have left open.
    program.send(SIGTERM)
    _ = program.wait(seconds: 5)
  }

  // MARK: Lock and unlock

  func connection() throws(ControlError) -> DaemonConnection {
    try DaemonConnection(mountPoint: mountPoint.description)
  }

  func status() throws(ControlError) -> DaemonStatus {
    var connection = try connection()
    return try connection.status()
  }

  /// Unlocks without scrypt, which a passcode takes.
  func unlock() throws(ControlError) { try unlock(recoveryKey: recoveryKey) }

  func unlock(_ passcode: String) throws(ControlError) {
    var connection = try connection()
    try connection.unlock(passcode: passcode)
  }

  func unlock(recoveryKey: String) throws(ControlError) {
    var connection = try connection()
    try connection.unlock(recoveryKey: recoveryKey)
  }

  /// Locks without a grace period; returns when the lock has taken effect.
  func lock() throws(ControlError) {
    var connection = try connection()
    try connection.lock(gracePeriod: .zero)
  }

  /// Announces a lock.
  func announceLock(gracePeriod: Duration) throws(ControlError) {
    var connection = try connection()
    try connection.lock(gracePeriod: gracePeriod, waiting: false)
  }

  /// Waits until the mount is in a state.
  func wait(for state: LockState) throws {
    try #require(eventually { (try? status().state) == state }, "still not \(state)")
  }
}

/// The mount command has ended instead of serving.
struct MountFailure: Error {
  let ending: Program.Ending
  let output: String
}

extension [UInt8] {
  /// `withUnsafeBytes` with typed errors.
  func withBytes<Result, Failure: Error>(
    _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try unsafe span.withUnsafeBytes { (bytes) throws(Failure) in try unsafe body(bytes) }
  }
}

extension DaemonConnection {
  mutating func unlock(passcode: String) throws(ControlError) {
    let bytes = Array(passcode.utf8)
    try unsafe bytes.withBytes { (bytes) throws(ControlError) in try unsafe unlock(.passcode(bytes)) }
  }

  mutating func unlock(recoveryKey: String) throws(ControlError) {
    let bytes = Array(recoveryKey.utf8)
    try unsafe bytes.withBytes { (bytes) throws(ControlError) in try unsafe unlock(.recoveryKey(bytes)) }
  }
}
