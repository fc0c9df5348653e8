/// Delays the next announced lock until this program has put its files away: `DelayLock` of the control interface.
///
/// ```swift
/// var delay = try DaemonConnection(mountPoint: "/home/me/private").registerLockDelay()
/// let time = try delay.waitForAnnouncement()
/// // Close what is open, within that time.
/// delay.release()
/// ```
///
/// The lock waits until every client that had registered before the announcement has released its delay, but never
/// longer than that time. Locks without a grace period are not delayed. An unlock that cancels the lock also ends the
/// delay. A delay is for one lock: for the next, register again, preferably before releasing this delay.
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

  /// Waits until a lock with a grace period is announced. Returns how long the lock waits for this client at most,
  /// counted from the announcement.
  ///
  /// - Parameter patience: the seconds after which to give up; 0 for no limit.
  /// - Throws: ``ControlError/Code-swift.enum/noAnswer`` if the daemon has ended or the wait was cancelled;
  ///   ``ControlError/Code-swift.enum/invalidRequest`` if the lock of this delay was announced before.
  public mutating func waitForAnnouncement(patience: Int = 0) throws(ControlError) -> Duration {
    guard !isAnnounced else {
      throw ControlError(.invalidRequest, "the lock was announced before; register a new delay for the next one")
    }
    let reply = try connection.receive(DelayReply.self, patience: patience)
    guard let seconds = reply.parameters.seconds else { throw DaemonConnection.notUnderstood }
    isAnnounced = true
    return .seconds(seconds)
  }

  /// Releases the delay. The end of the value or of its process does so too.
  public consuming func release() {
    // The connection ends with the value.
  }

  /// Returns an object that cancels ``waitForAnnouncement(patience:)`` from another thread. That also releases the
  /// delay.
  public func canceller() throws(ControlError) -> ConnectionCanceller {
    try connection.canceller()
  }
}

extension DaemonConnection {
  /// Registers this program to delay the next announced lock; see ``LockDelay``.
  ///
  /// - Throws: ``ControlError/Code-swift.enum/notUnderstood`` if the daemon has a version without delays.
  public consuming func registerLockDelay() throws(ControlError) -> LockDelay {
    try LockDelay(self)
  }
}
