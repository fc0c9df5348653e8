import ProtectfsIO
import ProtectfsPolicy

/// A listener's view of its mounts: it combines them, and delivers changes only.
package final class ProtectedDataListener: Sendable {
  /// What is known of a mount.
  package enum Part: Equatable {
    /// Nothing yet.
    case unknown
    case available(Bool)
  }

  private struct State {
    /// The mounts, by their followers; `nil` before the table of mounts was read.
    var parts: [ObjectIdentifier: Part]?
    /// Whose lock was announced, and has neither taken effect nor been cancelled.
    var announced: Set<ObjectIdentifier> = []
    /// What was delivered last.
    var isAvailable: Bool?
    var isCancelled = false
  }

  let mount: FollowedMount
  let protectionClass: ProtectionClass
  let delaysLocks: Bool
  private let deliver: @Sendable (ProtectedDataEvent) -> Void
  private let state: RankedMutex<State>

  /// - Parameters:
  ///   - wasAvailable: the availability that the listener knows already, so that it is not reported.
  ///   - deliver: called with each event, in their order, on any thread. It must not wait.
  package init(
    _ mount: FollowedMount, _ protectionClass: ProtectionClass, delaysLocks: Bool, wasAvailable: Bool? = nil,
    _ deliver: @escaping @Sendable (ProtectedDataEvent) -> Void
  ) {
    self.mount = mount
    self.protectionClass = protectionClass
    // A lock does not take other classes, so there is nothing to put away.
    self.delaysLocks = delaysLocks && protectionClass.isTakenByLocks
    self.deliver = deliver
    state = RankedMutex(.protectedDataListener, State(isAvailable: wasAvailable))
  }

  /// Delivers nothing from now on.
  func cancel() {
    state.withLock { $0.isCancelled = true }
  }

  /// Sets the mounts, by their followers.
  func follow(_ followers: [ObjectIdentifier]) {
    state.withLock { state in
      let parts = state.parts ?? [:]
      guard state.parts == nil || Set(parts.keys) != Set(followers) else { return }
      // What was open on the former mounts is lost, whatever the state of those that took their place.
      let isReplaced = !parts.isEmpty && parts.keys.allSatisfy { !followers.contains($0) }
      state.parts = isReplaced ? [:] : parts
      if isReplaced { deliverChange(&state) }
      state.parts = Dictionary(uniqueKeysWithValues: followers.map { ($0, parts[$0] ?? .unknown) })
      state.announced.formIntersection(followers)
      deliverChange(&state)
    }
  }

  /// A mount has become available or not, or was so when it was first asked.
  func become(_ part: Part, _ follower: ObjectIdentifier) {
    state.withLock { state in
      guard state.parts?[follower] != nil else { return }
      state.parts?[follower] = part
      let wasAnnounced = state.announced.remove(follower) != nil && state.announced.isEmpty
      deliverChange(&state, wasAnnounced: wasAnnounced)
    }
  }

  /// The lock of a mount was announced.
  func announceLoss(_ hold: @autoclosure () -> LockHold, _ follower: ObjectIdentifier) {
    state.withLock { state in
      guard !state.isCancelled, state.parts?[follower] == .available(true) else { return }
      state.announced.insert(follower)
      deliver(.willBecomeUnavailable(hold()))
    }
  }

  /// - Parameter wasAnnounced: whether a lock that was announced is no longer to come.
  private func deliverChange(_ state: inout State, wasAnnounced: Bool = false) {
    guard !state.isCancelled, let isAvailable = isAvailable(state) else { return }
    guard isAvailable != state.isAvailable || (isAvailable && wasAnnounced) else { return }
    state.isAvailable = isAvailable
    deliver(isAvailable ? .didBecomeAvailable : .didBecomeUnavailable)
  }

  /// Available if all mounts are, of which there must be one; `nil` if that is not known yet.
  private func isAvailable(_ state: State) -> Bool? {
    guard let parts = state.parts else { return nil }
    if parts.isEmpty || parts.values.contains(.available(false)) { return false }
    return parts.values.contains(.unknown) ? nil : true
  }
}

extension ProtectionClass {
  /// Whether a lock wipes its key at once.
  package var isTakenByLocks: Bool { self == .complete || self == .completeUnlessOpen }
}
