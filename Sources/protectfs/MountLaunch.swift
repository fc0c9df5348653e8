import Cryptography
import Hooks
import KeyManagement
import Logging
import MountDaemon
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

/// A mount about to be served, with all paths absolute.
struct MountLaunch {
  let options: MountOptions
  let storeID: StoreID
  let deviceKeyFile: String?
  let logFile: String?

  /// Mounts and serves until unmounted. The device key is read here, in the process that keeps it.
  func serve(_ log: DaemonLog, _ unmounter: Unmounter, _ ready: () -> Void) throws {
    let deviceKey = try DeviceKey.load(for: storeID, file: deviceKeyFile.map { PathName($0) })
    let log = try logFile.map { DaemonLog.file(try Self.openLog($0)) } ?? log
    try MountProcess.run(
      options, deviceKey: deviceKey, unmounter: unmounter, log: log.logger(level: .info), ready: ready)
  }

  /// Has a child process become a daemon and serve, and waits until it is ready.
  static func detach(prepare: () throws -> Void, serve: (() -> Void) throws -> Void) throws {
    let outcome = try DetachedProcess.launch(prepare: prepare, serve: serve) { error in
      let failure = CommandFailure(error) ?? CommandFailure(.failure, "\(error)")
      return (UInt8(failure.status.rawValue), failure.message)
    }
    guard let outcome, let status = ExitStatus(rawValue: Int32(outcome.status)) else {
      throw CommandFailure(.failure, "the daemon ended before it was ready; its log says why")
    }
    guard status == .success else { throw CommandFailure(status, outcome.message) }
  }

  /// Starts the process that runs the hooks of this mount.
  func startHooks(_ directory: HookDirectory, keepsError: Bool) throws(Errno) -> MountHooks {
    try MountHooks(directory, mountPoint: options.mountPoint, logFile: logFile, keepsError: keepsError)
  }

  static func openLog(_ path: String) throws(CommandFailure) -> LogFile {
    do throws(Errno) {
      return try LogFile(path: path)
    } catch .notPermitted {
      throw CommandFailure(
        .notPermitted, "\(path) belongs to another user or can be written by others; 'chmod go-w' it, or log elsewhere")
    } catch {
      throw CommandFailure(path, error)
    }
  }
}

/// What `mount` does with what opens the store.
struct MountUnlocking: ~Copyable {
  let mountPoint: String
  let opening: OpeningOptions
  let isWanted: Bool
  private var typed: UnlockSecret?

  init(mountPoint: String, opening: OpeningOptions, isWanted: Bool) {
    self.mountPoint = mountPoint
    self.opening = opening
    self.isWanted = isWanted
  }

  /// With a recovery key: gets the device key of the store back, and keeps it for this and later mounts.
  mutating func recoverDeviceKey(of backing: String, _ storeID: StoreID) throws {
    guard opening.recoveryKey.source != nil else { return }
    let secret = try opening.read()
    guard case .recoveryKey(let text) = secret else { return }
    let directory = try Store.open(backing)
    let bytes = try KeybagFile(backing: directory).read()
    let deviceKey = try Keybag.recover(bytes, recoveryKey: RecoveryKey(parsing: text))
    typed = .recoveryKey(text)
    // Where the store's own device key is at hand, sealed in the TPM perhaps, no other copy is to lie about.
    if DeviceKey.opens(bytes, of: storeID) { return }
    let path = try DeviceKey.keep(deviceKey, for: storeID)
    CommandFailure.report("the device key of this store was recovered, and is kept as \(path)")
  }

  /// Before a daemon in the foreground: has the command print the passcode, which the daemon may not start.
  mutating func runCommand() throws {
    if opening.passcode.command != nil { typed = try opening.read() }
  }

  /// Unlocks, if that was asked for. A terminal is asked three times.
  mutating func run() throws {
    guard isWanted else { return }
    var triesLeft = opening.isTypedPasscode ? 3 : 1
    while true {
      let secret = if let recovered = typed.take() { recovered } else { try opening.read() }
      var daemon = try DaemonConnection(mountPoint: mountPoint)
      triesLeft -= 1
      do throws(ControlError) {
        return try unsafe secret.withSecret { (secret) throws(ControlError) in try unsafe daemon.unlock(secret) }
      } catch {
        guard error.code == .wrongPasscode, triesLeft > 0 else {
          CommandFailure.report("\(mountPoint) is mounted, but locked")
          throw error
        }
        CommandFailure.report("\(error.message); try again")
      }
    }
  }
}

/// Carries an unlocking to the thread that does it beside a daemon in the foreground.
final class UnlockingBox: @unchecked Sendable {
  // Used by that one thread only, after it was made.
  private var unlocking: MountUnlocking

  init(_ unlocking: consuming MountUnlocking) {
    self.unlocking = unlocking
  }

  /// Unlocks, and tells the service manager; what goes wrong is reported and leaves the mount locked.
  func runAndReport() {
    do {
      try unlocking.run()
    } catch {
      CommandFailure.report(CommandFailure(error)?.message ?? "\(error)")
    }
    ServiceManager.tellReady()
  }
}
