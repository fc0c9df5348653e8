import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// Watches the kernel's table of mounts for all listeners of this process, on a thread of its own, and gives each mount
/// that is listened to one follower. It sends no request to a daemon, so that none can hold up the others.
///
/// There is no thread while there are no listeners.
package final class MountWatcher: Sendable {
  package static let shared = MountWatcher()

  private struct State {
    var listeners: MountFollower.Listeners = [:]
    /// By the device number of the file system, which its bind mounts share.
    var followers: [String: MountFollower] = [:]
    /// Of the thread; `nil` if there is none.
    var table: MountTable?
  }

  private let state = RankedMutex(.mountWatcher, State())

  private init() {}

  /// Follows the mounts of a listener from now on. Its first event is the present availability.
  package func add(_ listener: ProtectedDataListener) {
    state.withLock { state in
      state.listeners[ObjectIdentifier(listener)] = listener
      if let table = state.table {
        table.wakeUp()
      } else {
        let table = MountTable()
        state.table = table
        Thread(name: "protected-data", stackSize: 1 << 20) { self.watch(table) }.detach()
      }
    }
  }

  /// Ends that. Once this returns, nothing is delivered.
  package func remove(_ listener: ProtectedDataListener) {
    listener.cancel()
    state.withLock { state in
      guard state.listeners.removeValue(forKey: ObjectIdentifier(listener)) != nil else { return }
      state.table?.wakeUp()
    }
  }

  // MARK: The thread

  private func watch(_ table: MountTable) {
    var mounts: [MountedFileSystem]?
    while true {
      mounts = table.mounts() ?? mounts
      // Not under the lock: a file system on the way to a path may not answer.
      for listener in state.withLock({ Array($0.listeners.values) }) { _ = listener.mount.isResolved }
      let (isOver, isComplete) = state.withLock { state in
        let isComplete = mounts.map { assign($0, &state) } ?? false
        if state.listeners.isEmpty { state.table = nil }
        return (state.listeners.isEmpty, isComplete)
      }
      if isOver { return }
      table.waitForChange(atMost: isComplete ? nil : .seconds(1))
    }
  }

  /// Returns whether each listener has the followers of all its mounts.
  private func assign(_ mounts: [MountedFileSystem], _ state: inout State) -> Bool {
    var served: [String: (follower: MountFollower, listeners: MountFollower.Listeners)] = [:]
    var isComplete = true
    for (id, listener) in state.listeners {
      var followers: [ObjectIdentifier] = []
      let followed = listener.mount.current(in: mounts)
      for mount in followed {
        guard let follower = served[mount.device]?.follower ?? follower(of: mount, mounts, state) else { continue }
        served[mount.device, default: (follower, [:])].listeners[id] = listener
        followers.append(ObjectIdentifier(follower))
      }
      // Before the follower knows the listener.
      if !listener.mount.isResolved { isComplete = false }
      if followers.count == followed.count { listener.follow(followers) } else { isComplete = false }
    }
    for follower in state.followers.values where !served.values.contains(where: { $0.follower === follower }) {
      follower.cancel()
    }
    state.followers = served.mapValues(\.follower)
    for (follower, listeners) in served.values { follower.serve(listeners) }
    return isComplete
  }

  /// The follower of a file system, which is a new one if the mount that the last one followed is gone, but not if its
  /// mount point was renamed; `nil` if there are too many threads for one.
  private func follower(
    of mount: MountedFileSystem, _ mounts: [MountedFileSystem], _ state: State
  ) -> MountFollower? {
    if let follower = state.followers[mount.device],
      mounts.contains(where: { $0.identifier == follower.mount.identifier && $0.device == mount.device })
    {
      return follower
    }
    let follower = MountFollower(mount)
    do throws(Errno) {
      try follower.start()
      return follower
    } catch {
      return nil
    }
  }
}
