import Hooks
import KeyManagement
import Logging
import MountDaemon
import ProtectfsClient
import ProtectfsIO
import StoreFormat
import SystemPackage

/// A mount about to be served, with all paths absolute.
struct MountLaunch {
  let options: MountOptions
  let storeID: StoreID
  let deviceKeyFile: String?
  let logFile: String?

  /// Mounts and serves until unmounted. The device key is read here, in the process that keeps it.
  func serve(_ log: DaemonLog, _ unmounter: Unmounter, _ end: MountEnd, _ ready: () -> Void) throws {
    let deviceKey = try DeviceKey.load(
      forKeybag: StoreSummary.readKeybag(options.backing).bytes, file: deviceKeyFile)
    let log = try logFile.map { DaemonLog.file(try Self.openLog($0)) } ?? log
    try MountProcess.run(
      options, deviceKey: deviceKey, unmounter: unmounter, log: log.logger(level: .info), end: end, ready: ready)
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
final class MountUnlocking: @unchecked Sendable {
  private let launch: MountLaunch
  private let opening: OpeningOptions
  private let isWanted: Bool
  // Used by one thread at a time: beside a daemon in the foreground, by the one that unlocks.
  private var typed: UnlockSecret?

  init(_ launch: MountLaunch, _ opening: OpeningOptions, isWanted: Bool) {
    self.launch = launch
    self.opening = opening
    self.isWanted = isWanted
  }

  /// With a recovery key: gets the device key of the store back, and keeps it for this and later mounts.
  func recoverDeviceKey() throws {
    guard opening.recoveryKey != nil else { return }
    let secret = try opening.read()
    let bytes = try StoreSummary.readKeybag(launch.options.backing).bytes
    let deviceKey = try secret.recoveredDeviceKey(bytes)
    typed = consume secret
    // Where the store's own device key is at hand, sealed in the TPM perhaps, no other copy is to lie about.
    guard let deviceKey, !DeviceKey.opens(bytes, of: launch.storeID) else { return }
    let path = try DeviceKey.keep(deviceKey, for: launch.storeID)
    CommandFailure.report("the device key of this store was recovered, and is kept as \(path)")
    DeviceKeyPlace.warn(of: launch.options.backing)
  }

  /// Before a daemon in the foreground: has the command print the passcode, which the daemon may not start.
  func runCommand() throws {
    if opening.passcode.command != nil { typed = try opening.read() }
  }

  /// Unlocks, if that was asked for. A terminal is asked three times.
  private func run() throws {
    guard isWanted else { return }
    guard let secret = typed.take() else { return try opening.attempt(unlock) }
    try unlock(secret)
  }

  /// Unlocks a mount that another process serves. What goes wrong leaves it mounted.
  func runBesideDaemon() throws {
    do {
      try run()
    } catch {
      guard let failure = CommandFailure(error) else { throw error }
      throw CommandFailure(failure.status, "\(failure.message); \(locked("is mounted, but locked"))")
    }
  }

  private func locked(_ how: String) -> String {
    let mountPoint = launch.options.mountPoint
    return "\(mountPoint.printable) \(how); unlock it with: protectfs unlock \(mountPoint.shellQuoted)"
  }

  private func unlock(_ secret: borrowing UnlockSecret) throws {
    var daemon = try DaemonConnection(mountPoint: launch.options.mountPoint)
    try daemon.unlock(with: secret)
  }

  /// Unlocks a mount that this process serves, and notifies the service manager. What goes wrong is reported and ends
  /// the mount: it would not be what was asked for, and only the exit status says so.
  func runInDaemon(_ end: MountEnd) {
    do {
      try run()
    } catch let error as ControlError where error.code == .unlockCancelled {
      // As if the lock had come a moment later.
      CommandFailure.report(locked("was locked meanwhile"))
    } catch {
      let failure = CommandFailure(error) ?? CommandFailure(.failure, "\(error)")
      CommandFailure.report(failure.message)
      return end.request(status: failure.status.rawValue)
    }
    do throws(Errno) {
      try ServiceManager.notifyReady()
    } catch {
      CommandFailure.report("the service manager could not be notified that the mount is ready: \(error)")
    }
  }
}
