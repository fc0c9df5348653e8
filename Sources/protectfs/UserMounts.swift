import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// The mounts of this user, or for root all that there are, and what failed of something that is done on each: a
/// failure on one does not keep it from the others.
final class UserMounts: Sendable {
  /// One mount of each file system, in the order in which they were mounted.
  let mounts: [MountedFileSystem]
  /// By the place of the mount in ``mounts``.
  private let failures = RankedMutex(.commandProgress, [Int: CommandFailure]())

  /// - Parameter ofOthersToo: for root, those of other users too.
  /// - Throws: what keeps the table of mounts from being read: it does not say that nothing is mounted.
  init(ofOthersToo: Bool = true) throws(CommandFailure) {
    let user = Process.identity.user
    var devices: Set<String> = []
    do throws(Errno) {
      mounts = try MountedFileSystem.listed().filter { mount in
        (user == 0 && ofOthersToo || mount.owner == user) && devices.insert(mount.device).inserted
      }
    } catch {
      throw CommandFailure("the table of mounts", error)
    }
  }

  /// The only mount.
  ///
  /// - Parameters:
  ///   - command: what is typed before a mount point.
  ///   - takesAll: whether the command has an option for all mounts.
  /// - Throws: `notMounted` where there is none, `usage` where there are several.
  func only(for command: String, takesAll: Bool = false) throws(CommandFailure) -> MountedFileSystem {
    guard let mount = mounts.first else {
      throw CommandFailure(.notMounted, "nothing is mounted; mount a store with 'protectfs mount BACKING MOUNTPOINT'")
    }
    guard mounts.count == 1 else {
      let points = mounts.map { $0.mountPoint.printable }
      let all = takesAll ? ", or '\(command) --all'" : ""
      throw CommandFailure(
        .usage,
        "several stores are mounted (\(points.joined(separator: ", "))); type which: '\(command) \(points[0])'\(all)")
    }
    return mount
  }

  /// Calls `body` with the daemon of one of the mounts, and reports what it throws.
  func attempt(_ index: Int, _ body: (inout DaemonConnection) throws -> Void) {
    do {
      try DaemonPath.with(mounts[index], body)
    } catch {
      let failure = CommandFailure(error) ?? CommandFailure(.failure, "\(error)")
      failures.withLock { failures in
        failures[index] = failure
        CommandFailure.report("\(mounts[index].mountPoint.printable): \(failure.message)")
      }
    }
  }

  /// Does the same on all mounts at the same time.
  func attemptTogether(_ body: @escaping @Sendable (inout DaemonConnection) throws -> Void) {
    let threads = mounts.indices.map { index in Thread(name: "mount") { [self] in attempt(index, body) } }
    for thread in threads { thread.join() }
  }

  /// - Throws: when something failed, with the status of the first of the mounts on which it did.
  func finish(of verb: String) throws(CommandFailure) {
    let failures = failures.withLock { $0 }
    guard let first = failures.min(by: { $0.key < $1.key }) else { return }
    throw CommandFailure(first.value.status, "\(failures.count) of \(mounts.count) could not be \(verb)")
  }
}
