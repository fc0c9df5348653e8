import FoundationEssentials
import ProtectfsClient
import ProtectfsIO

/// A store of its own, mounted by the command.
struct MountedStore {
  let mountPoint: URL
  private let recoveryKey: URL

  /// The command: `PROTECTFS` in the environment, or `protectfs` in the search path; `nil` if there is none.
  static var command: String? {
    if let path = Process.environment("PROTECTFS") { return path }
    let directories = (Process.environment("PATH") ?? "").split(separator: ":")
    return directories.map { "\($0)/protectfs" }.first { FileManager.default.isExecutableFile(atPath: $0) }
  }

  /// Makes a store in a directory, mounts and unlocks it.
  init(in directory: URL, with command: String) throws {
    let backing = directory.appending(path: "backing")
    let deviceKey = directory.appending(path: "device.key")
    let passcode = directory.appending(path: "passcode")
    mountPoint = directory.appending(path: "mount")
    recoveryKey = directory.appending(path: "recovery.key")
    try FileManager.default.createDirectory(at: mountPoint, withIntermediateDirectories: false)
    try Data(UUID().uuidString.utf8).write(to: passcode)
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: passcode.path)
    try Self.run(
      command, "init", backing.path, "--passcode-file", passcode.path, "--device-key", deviceKey.path,
      "--recovery-key-file", recoveryKey.path)
    try Self.run(command, "mount", "-o", "hooks=off", "--device-key", deviceKey.path, backing.path, mountPoint.path)
    do {
      try unlock()
    } catch {
      try remove(with: command)
      throw error
    }
  }

  func lock() throws {
    var daemon = try DaemonConnection(mountPoint: mountPoint.path)
    try daemon.lock(gracePeriod: .zero)
  }

  /// With the recovery key: a passcode takes a second each time.
  func unlock() throws {
    var key = try Data(contentsOf: recoveryKey)
    while key.last == UInt8(ascii: "\n") { key.removeLast() }
    var daemon = try DaemonConnection(mountPoint: mountPoint.path)
    try unsafe key.withUnsafeBytes { bytes in try unsafe daemon.unlock(.recoveryKey(bytes)) }
  }

  func remove(with command: String) throws {
    try Self.run(command, "unmount", mountPoint.path)
  }

  private static func run(_ command: String, _ arguments: String...) throws {
    let program = try ChildProcess(command, arguments, .inherited)
    program.readLines({ _ in }, isOver: { false })
    let ending = program.reap()
    guard ending == .exited(0) else {
      throw TemporaryProtectedDirectory.Failure(description: "'protectfs \(arguments[0])' has failed")
    }
  }
}
