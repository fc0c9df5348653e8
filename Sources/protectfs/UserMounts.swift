import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// The mounts of this user, or for root all that there are, and what failed of something that is done on each: a
/// failure on one does not keep it from the others.
final class UserMounts: Sendable {
  /// One mount of each file system, in the order in which they were mounted.
  let mounts: [MountedFileSystem]
  private let isForAll: Bool
  private let search: Monitor<Search>
  /// By the place of the mount in ``mounts``; daemons come after these, and then what is not reached.
  private let failures = RankedMutex(.commandProgress, [Int: CommandFailure]())

  /// The search for daemons that run without any of these mounts.
  private enum Search {
    case isDue, isUnderWay
    case found([ControlSocket.Daemon])
  }

  /// How many there are.
  var count: Int { mounts.count + daemons.count }

  /// - Parameters:
  ///   - ofOthersToo: for root, those of other users too.
  ///   - includingDaemons: also file systems whose daemons run, and of which this process finds no mount, or not by its
  ///     path: what locks all must reach them.
  /// - Throws: what keeps the table of mounts from being read: it does not say that nothing is mounted.
  init(ofOthersToo: Bool = true, includingDaemons: Bool = false) throws(CommandFailure) {
    let user = Process.identity.user
    isForAll = user == 0 && ofOthersToo
    var devices: Set<String> = []
    do throws(Errno) {
      mounts = try MountedFileSystem.listed().filter { [isForAll] mount in
        (isForAll || mount.owner == user) && devices.insert(mount.device).inserted
      }
    } catch {
      throw CommandFailure("the table of mounts", error)
    }
    search = Monitor(.commandState, includingDaemons ? .isDue : .found([]))
    if includingDaemons { Process.raiseOpenFileLimit() }
  }

  /// Daemons that run without any of the mounts. The first who asks searches for them, while others wait.
  private var daemons: [ControlSocket.Daemon] {
    let known: [ControlSocket.Daemon]? = search.wait { search, _ in
      switch search {
      case .found(let daemons): return .some(daemons)
      case .isUnderWay: return nil
      case .isDue:
        search = .isUnderWay
        return .some(nil)
      }
    }
    if let known { return known }
    let owners = isForAll ? mounts.map(\.owner) + ControlSocket.possibleOwners() : [Process.identity.user]
    let daemons = Self.daemons(of: owners, without: mounts)
    search.update { $0 = .found(daemons) }
    return daemons
  }

  /// The daemons of these users that serve none of the mounts. A user whose directories hang, being on a file system of
  /// that user's own, is not waited for.
  private static func daemons(of owners: [UInt32], without mounts: [MountedFileSystem]) -> [ControlSocket.Daemon] {
    let end = ContinuousClock.now + .seconds(2)
    var (unseen, begun): (Set<UInt32>, [UInt32]) = (Set(owners), [])
    let found = Monitor(.commandState, [UInt32: [ControlSocket.Daemon]]())
    for owner in owners where unseen.remove(owner) != nil && ContinuousClock.now < end {
      let search = { @Sendable in
        let daemons = ControlSocket.daemons(of: owner).filter { !mounts.contains(where: $0.serves) }
        found.update { $0[owner] = daemons }
      }
      begun.append(owner)
      do throws(Errno) {
        try Thread(starting: "search", search).detach()
      } catch {
        // Nobody is left out since there are too many threads.
        search()
      }
    }
    return found.wait { found, deadline in
      deadline = end
      guard found.count == begun.count || ContinuousClock.now >= end else { return nil }
      return begun.flatMap { found[$0] ?? [] }
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
      throw CommandFailure(.notMounted, "nothing is mounted; \(LoginSettings.wayToMount(nil))")
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

  /// Calls `body` with the daemon of one of them, and reports what it throws.
  ///
  /// - Parameter persists: whether it is called again when the daemon ends the connection.
  func attempt(_ index: Int, persists: Bool = false, _ body: (inout DaemonConnection) throws -> Void) {
    do {
      if index < mounts.count { return try attempt(mounts[index], persists: persists, body) }
      let daemon = daemons[index - mounts.count]
      try DaemonPath.with(daemon.socket, of: daemon.owner, persists: persists, body)
    } catch {
      let failure = CommandFailure(error) ?? CommandFailure(.failure, "\(error)")
      let name = index < mounts.count ? mounts[index].mountPoint : daemons[index - mounts.count].socket.path
      failures.withLock { failures in
        failures[index] = failure
        // Root hears what processes of users say in place of their daemons.
        CommandFailure.report("\(name.printable): \(failure.message.printable)")
      }
    }
  }

  private func attempt(
    _ mount: MountedFileSystem, persists: Bool, _ body: (inout DaemonConnection) throws -> Void
  ) throws {
    do {
      try DaemonPath.with(mount, persists: persists, body)
    } catch let error as ControlError where error.code == .noAnswer && isServed(mount) {
      // Its path has changed. The daemon is among the daemons.
    }
  }

  /// Whether one of the daemons says that it has mounted this.
  private func isServed(_ mount: MountedFileSystem) -> Bool {
    daemons.contains { daemon in
      guard daemon.owner == mount.owner,
        var connection = try? DaemonConnection(at: daemon.socket, owner: daemon.owner),
        let status = try? connection.status()
      else { return false }
      return status.backing == mount.backing
    }
  }

  /// Locks all at the same time: the mounts at once, and then what is searched for.
  func lockTogether(_ body: @escaping @Sendable (inout DaemonConnection) throws -> Void) {
    var threads: [Thread] = []
    func lock(_ index: Int) {
      do throws(Errno) {
        threads.append(try Thread(starting: "mount") { [self] in attempt(index, persists: true, body) })
      } catch {
        attempt(index, persists: true, body)
      }
    }
    for index in mounts.indices { lock(index) }
    for index in mounts.count..<count { lock(index) }
    for thread in threads { thread.join() }
  }

  /// For root, reports what this process does not reach: mounts of other mount namespaces, whose daemons have their
  /// sockets in a `/run` of their own. They count as failures.
  func reportUnreached(_ command: String) {
    guard isForAll else { return }
    let others = ForeignMount.all(besides: mounts.map(\.device)).filter { !isServed($0.mount) }
    let first = count
    for (index, other) in others.enumerated() {
      let namespaces = other.hasOtherUsers ? "--user --mount" : "--mount"
      let failure = CommandFailure(
        .noAnswer,
        "it is mounted in another mount namespace (that of process \(other.process)), and its daemon is not reached from "
          + "here; 'nsenter \(namespaces) --target \(other.process) \(command)' reaches it")
      failures.withLock { $0[first + index] = failure }
      CommandFailure.report("\(other.mount.mountPoint.printable): \(failure.message)")
    }
  }

  /// - Throws: when something failed, with the status of the first on which it did.
  func finish(of verb: String) throws(CommandFailure) {
    let failures = failures.withLock { $0 }
    let count = max(count, (failures.keys.max() ?? -1) + 1)
    if let failure = Self.summary(of: failures, among: count, verb) { throw failure }
  }

  /// What is said in the end. A lock that has lost writes has taken effect.
  static func summary(of failures: [Int: CommandFailure], among count: Int, _ verb: String) -> CommandFailure? {
    let incomplete = failures.filter { $0.value.status != .writesLost }
    if let first = incomplete.min(by: { $0.key < $1.key }) {
      return CommandFailure(first.value.status, "\(incomplete.count) of \(count) could not be \(verb)")
    }
    if failures.isEmpty { return nil }
    return CommandFailure(.writesLost, "\(count) \(verb); \(failures.count) of them may have lost writes")
  }
}
