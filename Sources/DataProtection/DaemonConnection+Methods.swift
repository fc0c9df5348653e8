// The methods of the control interface; Documentation/PROTOCOL.md has their definitions.
extension DaemonConnection {
  /// A secret that opens a store: UTF-8 text in memory that the caller wipes.
  @unsafe public enum Secret {
    /// What the user knows.
    case passcode(UnsafeRawBufferPointer)
    /// What `protectfs init` printed.
    case recoveryKey(UnsafeRawBufferPointer)

    var member: (ControlInterface.SecretMember, UnsafeRawBufferPointer) {
      switch unsafe self {
      case .passcode(let bytes): unsafe (.passcode, bytes)
      case .recoveryKey(let bytes): unsafe (.recoveryKey, bytes)
      }
    }
  }

  /// Asks for the state of the mount.
  public mutating func status() throws(ControlError) -> DaemonStatus {
    try call(.status, NoParameters(), returning: StatusReply.self).status
  }

  /// Locks the mount.
  ///
  /// - Parameters:
  ///   - gracePeriod: how long everything stays usable after the announcement; `nil` for the mount's own period.
  ///   - waiting: whether to return only when the lock has taken effect.
  /// - Throws: ``ControlError/Code-swift.enum/lockCancelled`` when an unlock came first.
  public mutating func lock(gracePeriod: Duration? = nil, waiting: Bool = true) throws(ControlError) {
    let seconds = gracePeriod.map { $0 / .seconds(1) }
    let parameters = LockParameters(gracePeriod: seconds, wait: waiting)
    _ = try call(.lock, parameters, returning: NoParameters.self, patience: waiting ? 0 : 30)
  }

  /// Unlocks the mount, or cancels a lock whose grace period runs.
  ///
  /// - Throws: ``ControlError/Code-swift.enum/wrongPasscode``; nothing has changed then.
  public mutating func unlock(_ secret: Secret) throws(ControlError) {
    try unsafe call(SecretMessage(.unlock, [secret.member]))
  }

  /// Replaces the passcode; files are not touched, and the recovery key stays as it is.
  ///
  /// - Throws: ``ControlError/Code-swift.enum/wrongPasscode``; nothing has changed then.
  public mutating func changePasscode(
    from secret: Secret, to newPasscode: UnsafeRawBufferPointer
  ) throws(ControlError) {
    try unsafe call(SecretMessage(.changePasscode, [secret.member, (.newPasscode, newPasscode)]))
  }

  /// Listens to the mount until `receive` returns false or the daemon ends.
  ///
  /// The first event is ``DaemonEvent/monitoringBegan(_:)``.
  /// - Throws: ``ControlError/Code-swift.enum/noAnswer`` when the daemon has ended.
  public consuming func events(_ receive: (DaemonEvent) -> Bool) throws(ControlError) {
    try send(.events, NoParameters(), more: true)
    while true {
      let reply = try self.receive(EventReply.self, patience: 0)
      if let event = reply.parameters.event, !receive(event) { return }
      guard reply.continues else { return }
    }
  }
}
