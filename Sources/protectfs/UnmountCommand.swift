import ArgumentParser
import MountDaemon
import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// `protectfs unmount`
struct UnmountCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "unmount",
    abstract: "Unmount a store.",
    discussion: """
      Writes everything back, wipes every key, and returns when the daemon has ended. A mount that is in use stays as \
      it is, and the exit status is 19. A mount whose daemon was killed is cleaned up.

      A file system can outlive its mount point: another mount namespace has a mount of it, as containers and services \
      do, or it is mounted at another place too. Then every class but 'none' is locked at once, also for open files, \
      the exit status is 24, and the message names what holds the file system. Until that lets go, the backing \
      directory stands for the mount in 'protectfs lock', 'unlock' and 'status'.

      Example:
        protectfs unmount ~/private
      """,
    aliases: ["umount"])

  @Argument(
    help: .init("Where the store is mounted; may be left out where one store is mounted.", valueName: "mount-point"),
    completion: .mountPoint)
  var mountPoint: String?

  @Flag(
    name: [.customShort("z"), .long], help: "Lock every class but 'none', then detach the mount, even if it is in use.")
  var lazy = false

  func run() throws {
    let mount = try mountPoint.map(Self.mount(at:)) ?? UserMounts().only(for: "protectfs unmount")
    let path = mount.mountPoint
    guard mount.owner == Process.identity.user || Process.identity.user == 0 else {
      throw CommandFailure(
        .notPermitted, "\(path) was mounted by user \(mount.owner); unmount as that user or as root")
    }
    // First the daemon's process: one that was stopped does not even say whether it lives.
    guard var daemon = try? DaemonConnection(to: mount) else {
      return mount.isDead ? try Self.cleanUp(mount) : try Self.detach(mount, isLazy: lazy)
    }
    let process = daemon.processID.flatMap { try? ProcessDescriptor($0) }
    let notice = WaitNotice(for: daemon.processID)
    defer { notice.end() }
    // The mount is asked after that: a request that a stopped daemon has keeps this process from being killed.
    let status = try? daemon.statusWhenItAnswers()
    let hasEnded = process?.waitForEnd(atMost: .zero) ?? false
    guard !mount.isDead else { return try Self.cleanUp(mount) }
    // Its mount went with it: what is there is the next, which may even have the same numbers.
    guard !hasEnded else { return }
    guard let status else { return try Self.detach(mount, isLazy: lazy) }
    let isBind = status.mountPoint != path && mount.sameFileSystem().contains { $0.mountPoint == status.mountPoint }
    let lost = lazy && !isBind ? try Self.lockAll(&daemon) : nil
    if !isBind { try Self.finishWrites(&daemon, lazy) }
    let ending = try? ProcessDescriptor(status.processID)
    try Self.detach(mount, isLazy: lazy)
    if let lost { throw lost }
    guard !lazy, !isBind, let ending else { return }
    try Self.waitForEnd(of: ending, status.processID, daemon, mount)
  }

  /// The mount of a mount point.
  private static func mount(at mountPoint: String) throws -> MountedFileSystem {
    let path = try CanonicalPath.of(mountPoint)
    guard let mount = try MountedFileSystem.containing(path), mount.mountPoint == path else {
      throw CommandFailure(.notMounted, notMounted(mountPoint, path))
    }
    return mount
  }

  /// What a path is that is no mount point, and what to type instead.
  private static func notMounted(_ given: String, _ path: String) -> String {
    if let mount = try? MountedFileSystem.containing(path) {
      return "\(given) is in the mount at \(mount.mountPoint); unmount that: "
        + "protectfs unmount \(mount.mountPoint.shellQuoted)"
    }
    let mountPoints = MountedFileSystem.mounts(of: path).map(\.mountPoint)
    guard !mountPoints.isEmpty else { return "\(given) is not the mount point of a protectfs mount" }
    return "\(given) is the backing directory of \(mountPoints.joined(separator: " and ")); unmount that: "
      + mountPoints.map { "protectfs unmount \($0.shellQuoted)" }.joined(separator: "; ")
  }

  /// Takes a mount away whose daemon was killed. That the kernel still has pages of it is a failure all the same.
  private static func cleanUp(_ mount: MountedFileSystem) throws(CommandFailure) {
    let pages = Result { () throws(CommandFailure) in try DaemonPath.requireNoPages(of: mount) }
    try detach(mount, isLazy: true)
    PageRemovalMark.remove(for: mount)
    try pages.get()
  }

  /// Returns what the lock has lost; it has taken effect all the same.
  private static func lockAll(_ daemon: inout DaemonConnection) throws(ControlError) -> ControlError? {
    do throws(ControlError) {
      try daemon.lockAll()
      return nil
    } catch  where error.code == .writesLost {
      return error
    }
  }

  /// Waits for what the kernel is writing back. A lazy unmount comes in any case, and a daemon of an earlier version
  /// does not know how.
  private static func finishWrites(_ daemon: inout DaemonConnection, _ isLazy: Bool) throws(ControlError) {
    do throws(ControlError) {
      try daemon.finishWrites()
    } catch {
      if error.code == .failed, !isLazy { throw error }
    }
  }

  /// Unmounts, unless that was done meanwhile: what has come in its place stays.
  private static func detach(_ mount: MountedFileSystem, isLazy: Bool) throws(CommandFailure) {
    let path = mount.mountPoint
    do throws(Errno) {
      guard try MountedFileSystem.find(containing: path) == mount else { return }
      try Unmount.run(mount, isLazy: isLazy)
    } catch .resourceBusy {
      let holders = MountHolders(using: mount).words
      throw CommandFailure(.busy, "\(path) is in use: \(holders). Close that, or detach the mount with --lazy")
    } catch {
      throw CommandFailure(path, error)
    }
  }

  /// Waits until the daemon has ended, so that the store can be mounted again or copied at once. A file system that
  /// somebody holds is locked, and this is a failure; so is what the lock has lost, also if it is let go then.
  private static func waitForEnd(
    of process: borrowing ProcessDescriptor, _ number: Int32, _ daemon: consuming DaemonConnection,
    _ mount: MountedFileSystem
  ) throws {
    if process.waitForEnd(atMost: .milliseconds(500)) { return }
    let lost = Result { () throws(ControlError) in try lockAll(&daemon) }
    // It may still be on its way to its end, and many a namespace is there for a moment.
    let start = ContinuousClock.now
    var holders: MountHolders
    repeat {
      if process.waitForEnd(atMost: .seconds(1)) {
        if case .success(let lost?) = lost { throw lost }
        return
      }
      holders = MountHolders(of: mount, daemon: number)
      // What was written may be on its way to a slow disk.
    } while ContinuousClock.now
      < start + .seconds(!holders.isEmpty ? 3 : Process.waitsForDisk(number) ? 90 : 10)
    let state =
      switch lost {
      case .success(let lost): lost?.message ?? "everything is locked"
      case .failure(let error): "it could not be locked (\(error.message))"
      }
    throw CommandFailure(
      .stillHeld,
      "\(mount.mountPoint) is unmounted here, but the file system lives on: \(holders.words). "
        + "Until it is let go, \(state), and its daemon (process \(number)) runs")
  }
}
