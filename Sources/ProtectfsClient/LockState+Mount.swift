import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

extension LockState {
  /// The state of the mount that contains a file or directory. While a lock wipes keys, the state is still
  /// ``gracePeriod``; it is ``locked`` when they are gone.
  ///
  /// Of a mount of this user's it is what the daemon has published, or says; of another user's it is read from the
  /// root, where anyone who may list it finds it in an extended attribute. Neither is waited for longer than two
  /// seconds.
  ///
  /// - Throws: `ENOTSUP` if the path is not on a protectfs mount, or its daemon does not have the attribute; `EACCES`
  ///   if this user may not list the root; `ENOTCONN` if the daemon is gone, `ETIMEDOUT` if it does not answer.
  public init(ofMountAt path: String) throws(Errno) {
    guard let mount = try Self.mount(containing: path) else { throw .notSupported }
    self = try Self(of: mount)
  }

  /// The state of a mount, asked in the same way.
  ///
  /// - Throws: as ``init(ofMountAt:)``.
  package init(of mount: MountedFileSystem) throws(Errno) {
    if let state = PublishedStates.states(of: [mount])[mount.device] {
      self = state
    } else {
      self = try Self.asked(of: mount)
    }
  }

  /// Whether the states of all mounts are known and satisfy a condition. Nobody is asked where a published one does
  /// not.
  package static func all(of mounts: [MountedFileSystem], satisfy condition: (LockState) -> Bool) -> Bool {
    let published = PublishedStates.states(of: mounts)
    return published.values.allSatisfy(condition)
      && mounts.allSatisfy { mount in
        published[mount.device] != nil || (try? asked(of: mount)).map(condition) ?? false
      }
  }

  private static func asked(of mount: MountedFileSystem) throws(Errno) -> LockState {
    let mayAsk = [mount.owner, 0].contains(Process.identity.user)
    return try BoundedCall.result(about: mount.device) { () throws(Errno) in
      if mayAsk, let state = try answer(of: mount) { return state }
      return try read(from: mount)
    }
  }

  /// What the daemon says; `nil` if it is not reached: it has ended, or its socket is not seen from here.
  private static func answer(of mount: MountedFileSystem) throws(Errno) -> LockState? {
    guard var daemon = try? DaemonConnection(to: mount, patience: BoundedCall.seconds) else { return nil }
    do throws(ControlError) {
      return try daemon.status(patience: BoundedCall.seconds).state
    } catch {
      let process = daemon.processID.flatMap { try? ProcessDescriptor($0) }
      guard process?.waitForEnd(atMost: .zero) == false else { return nil }
      throw .timedOut
    }
  }

  private static func mount(containing path: String) throws(Errno) -> MountedFileSystem? {
    if let file = try? Descriptor.openCached(PathName(path)) { return try MountedFileSystem.find(containing: file) }
    return try BoundedCall.result(about: path) { () throws(Errno) in try MountedFileSystem.find(containing: path) }
  }

  private static func read(from mount: MountedFileSystem) throws(Errno) -> LockState {
    // A bind mount may begin below the root, where the attribute does not exist.
    for candidate in [mount] + mount.sameFileSystem() {
      do throws(Errno) {
        let text = try String(
          decoding: PathName(candidate.mountPoint).attribute(PathName(Self.attributeName)), as: UTF8.self)
        guard let state = Self(rawValue: text) else { throw .notSupported }
        return state
      } catch .noData {
        continue
      } catch {
        throw error.isOfAGoneDaemon ? .socketNotConnected : error
      }
    }
    throw .notSupported
  }
}
