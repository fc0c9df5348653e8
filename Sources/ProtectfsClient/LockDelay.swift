/// Holds the next announced lock back until this program has put its files away: `DelayLock` of the control interface.
///
/// ```swift
/// var delay = try DaemonConnection(mountPoint: "/home/me/private").registerLockDelay()
/// let time = try delay.waitForAnnouncement()
/// // Close what is open, within that time.
/// delay.release()
/// ```
///
/// The lock waits until every client that was registered before it was announced has released it, and never longer than
/// that time; locks without a grace period wait for nobody. An unlock that cancels the lock ends the delay too. A delay
/// is for one lock: for the next, register anew, best before this one is released.
public struct LockDelay: ~Copyable, Sendable {
  private var connection: DaemonConnection
  private var isAnnounced = false

  init(_ connection: consuming DaemonConnection) throws(ControlError) {
    var connection = connection
    try connection.send(.delayLock, NoParameters(), more: true)
    let reply = try connection.receive(DelayReply.self, patience: 30)
    guard reply.continues, reply.parameters.seconds == nil else { throw DaemonConnection.notUnderstood }
    self.connection = connection
  }

  /// Waits until a lock with a grace period is announced. Returns how long it waits for this client at most, counted
  /// from the announcement.
  ///
  /// - Parameter patience: the seconds after which to give up; 0 for no limit.
  /// - Throws: ``ControlError/Code-swift.enum/noAnswer`` when the daemon has ended, or the wait was cancelled;
  ///   ``ControlError/Code-swift.enum/invalidRequest`` when the lock of this delay was announced before.
  public mutating func waitForAnnouncement(patience: Int = 0) throws(ControlError) -> Duration {
    guard !isAnnounced else {
      throw ControlError(.invalidRequest, "the lock was announced before; register a new delay for the next one")
    }
    let reply = try connection.receive(DelayReply.self, patience: patience)
    guard let seconds = reply.parameters.seconds else { throw DaemonConnection.notUnderstood }
    isAnnounced = true
    return .seconds(seconds)
  }

  /// Holds nothing back any more, as when the value ends or its process does.
  public consuming func release() {
    // The connection ends with the value.
  }

  /// A way to end ``waitForAnnouncement(patience:)`` from another thread. The delay is released by that.
  public func canceller() throws(ControlError) -> ConnectionCanceller {
    try connection.canceller()
  }
}

extension DaemonConnection {
  /// Registers this program as one that holds the next announced lock back; see ``LockDelay``.
  ///
  /// - Throws: ``ControlError/Code-swift.enum/notUnderstood`` where the daemon is of a version without delays.
  public consuming func registerLockDelay() throws(ControlError) -> LockDelay {
    try LockDelay(self)
  }
}
