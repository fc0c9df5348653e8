import ProtectfsPolicy

// The methods of the control interface. Documentation/PROTOCOL.md defines them.
extension DaemonConnection {
  /// A secret that opens a store, in memory that the caller wipes.
  @unsafe public enum Secret {
    /// A passcode that the user knows, in UTF-8.
    case passcode(UnsafeRawBufferPointer)
    /// A passcode of a protector that also uses the machine's TPM.
    case tpmPasscode(UnsafeRawBufferPointer)
    /// The recovery key that `protectfs init` printed, in UTF-8.
    case recoveryKey(UnsafeRawBufferPointer)
    /// The content of a key file, 32 to 1024 bytes.
    case keyFile(UnsafeRawBufferPointer)

    /// The parameter of a call that this secret authorizes.
    var member: SecretMessage.Member {
      switch unsafe self {
      case .passcode(let bytes), .tpmPasscode(let bytes): unsafe .text(.passcode, bytes)
      case .recoveryKey(let bytes): unsafe .text(.recoveryKey, bytes)
      case .keyFile(let bytes): unsafe .bytes(.keyFile, bytes)
      }
    }

    /// The parameter of a call that adds this secret.
    var newMember: SecretMessage.Member {
      switch unsafe self {
      case .passcode(let bytes): unsafe .text(.newPasscode, bytes)
      case .tpmPasscode(let bytes): unsafe .text(.newTPMPasscode, bytes)
      case .recoveryKey(let bytes): unsafe .text(.newRecoveryKey, bytes)
      case .keyFile(let bytes): unsafe .bytes(.newKeyFile, bytes)
      }
    }
  }

  /// Returns the state of the mount.
  public mutating func status() throws(ControlError) -> DaemonStatus { try status(patience: 30) }

  /// The same, for which the daemon has so many seconds; 0 for no limit.
  mutating func status(patience: Int) throws(ControlError) -> DaemonStatus {
    try call(.status, NoParameters(), returning: StatusReply.self, patience: patience).status
  }

  /// Locks the mount.
  ///
  /// - Parameters:
  ///   - gracePeriod: how long everything stays usable after the announcement; `nil` for the mount's own period.
  ///   - waiting: whether to return only when the lock has taken effect.
  /// - Throws: ``ControlError/Code-swift.enum/lockCancelled`` if an unlock came first.
  public mutating func lock(gracePeriod: Duration? = nil, waiting: Bool = true) throws(ControlError) {
    let seconds = gracePeriod.map { $0 / .seconds(1) }
    let parameters = LockParameters(gracePeriod: seconds, wait: waiting)
    _ = try call(.lock, parameters, returning: NoParameters.self, patience: waiting ? 0 : 30)
  }

  /// Locks the mount without a grace period, class CX included. Returns when the lock has taken effect.
  package mutating func lockWithInactive() throws(ControlError) {
    let parameters = LockParameters(gracePeriod: 0, inactive: true, wait: true)
    _ = try call(.lock, parameters, returning: NoParameters.self, patience: 0)
  }

  /// Returns the state of the mount, and waits for the daemon without a time limit.
  package mutating func statusWhenItAnswers() throws(ControlError) -> DaemonStatus {
    try status(patience: 0)
  }

  /// Locks every class but `none` at once, including open files of class B, as before the first unlock. Returns when
  /// the lock has taken effect.
  package mutating func lockAll() throws(ControlError) {
    _ = try call(.lockAll, NoParameters(), returning: NoParameters.self, patience: 0)
  }

  /// Returns when what the kernel was writing back has been written: before Linux 6.16 an unmount does not wait for it.
  ///
  /// - Throws: ``ControlError/Code-swift.enum/failed`` if the backing store does not take it.
  package mutating func finishWrites() throws(ControlError) {
    _ = try call(.finishWrites, NoParameters(), returning: NoParameters.self, patience: 0)
  }

  /// Unlocks the mount, or cancels a lock during its grace period. Checking the secret takes about a second.
  ///
  /// - Throws: ``ControlError/Code-swift.enum/wrongPasscode``, or ``ControlError/Code-swift.enum/unlockCancelled`` if a
  ///   lock was requested in that second. Nothing has changed then.
  public mutating func unlock(_ secret: Secret) throws(ControlError) {
    try unsafe call(SecretMessage(.unlock, [secret.member]))
  }

  /// Replaces the passcode. Files are not changed, and the recovery key stays the same.
  ///
  /// - Throws: ``ControlError/Code-swift.enum/wrongPasscode``. Nothing has changed then.
  public mutating func changePasscode(
    from secret: Secret, to newPasscode: UnsafeRawBufferPointer
  ) throws(ControlError) {
    try unsafe call(SecretMessage(.changePasscode, [secret.member, .text(.newPasscode, newPasscode)]))
  }

  /// Adds a protector named `label`.
  public mutating func addKey(_ new: Secret, label: String, with secret: Secret) throws(ControlError) {
    try unsafe call(SecretMessage(.addKey, [secret.member, new.newMember, .plain("label", label)]))
  }

  /// Removes the protector with an identity: 32 hexadecimal digits, as shown by `protectfs key list`.
  ///
  /// - Throws: ``ControlError/Code-swift.enum/lastWayIn``.
  public mutating func removeKey(_ id: String, with secret: Secret) throws(ControlError) {
    try unsafe call(SecretMessage(.removeKey, [secret.member, .plain("id", id)]))
  }

  /// Makes the machine a host of the store that asked for it with a pairing code.
  ///
  /// - Parameters:
  ///   - code: the code that `protectfs host add` printed there, in UTF-8.
  ///   - classes: the classes whose keys the host gets; `nil` for those that it asked for.
  public mutating func addHost(
    _ code: UnsafeRawBufferPointer, classes: [ProtectionClass]?, with secret: Secret
  ) throws(ControlError) {
    let list = unsafe classes.map { unsafe [SecretMessage.Member.list("classes", $0.map(\.name))] } ?? []
    try unsafe call(SecretMessage(.addHost, [secret.member, .text(.pairingCode, code)] + list))
  }

  /// Gives the host with an identity, 32 hexadecimal digits, the keys of other classes than it has. One that had a key
  /// may have kept it until ``rotate(_:with:_:)`` has ended.
  public mutating func setHost(
    _ id: String, classes: [ProtectionClass], with secret: Secret
  ) throws(ControlError) {
    try unsafe call(
      SecretMessage(.setHost, [secret.member, .plain("id", id), .list("classes", classes.map(\.name))]))
  }

  /// Locks the mount without a grace period, and has all other hosts of the store do so.
  ///
  /// - Parameters:
  ///   - inactive: whether class CX goes too.
  ///   - everyClass: whether every class but `none` goes, as before the first unlock.
  ///   - timeout: how long the others are waited for.
  /// - Returns: the names of those who have not said in that time that they locked.
  public mutating func lockHosts(
    inactive: Bool = false, everyClass: Bool = false, timeout: Duration = .seconds(30)
  ) throws(ControlError) -> [String] {
    let seconds = timeout / .seconds(1)
    let parameters = HostLockParameters(inactive: inactive, everyClass: everyClass, timeout: seconds)
    // The file system of the store may not answer, which the lock itself does not depend on.
    return try call(.lockHosts, parameters, returning: HostLockReply.self, patience: Int(seconds) + 60).silent
  }

  /// Gives a class a new key and wraps the keys of all its files again. Continues a rotation that was interrupted.
  ///
  /// - Parameter report: called with the progress a few times a second, and at the end. Returning `false` ends the
  ///   rotation early.
  /// - Throws: ``ControlError/Code-swift.enum/rotationInterrupted``; ``ControlError/Code-swift.enum/failed`` if files
  ///   cannot be changed, as the last report says. Both class keys are kept then.
  public consuming func rotate(
    _ protectionClass: ProtectionClass, with secret: Secret, _ report: (RotationStatus) -> Bool
  ) throws(ControlError) {
    try unsafe send(SecretMessage(.rotate, [secret.member, .plain("class", protectionClass.name)], more: true))
    while true {
      let reply = try receive(RotationStatus.self, patience: 0)
      let wantsMore = report(reply.parameters)
      guard reply.continues else {
        if let kept = reply.parameters.kept, kept > 0 {
          throw ControlError(
            .failed,
            "\(kept) files or directories could not be given the new key: they are not this user's to change, immutable, or "
              + "read-only; the mount's log names them. Both class keys are kept. Make them writable and run it again")
        }
        return
      }
      if !wantsMore { throw ControlError(.rotationInterrupted, "the rotation was interrupted; run it again") }
    }
  }

  /// Erases the keys of a class. The data encrypted under them is lost. The class gets a new key for new files.
  public mutating func erase(_ protectionClass: ProtectionClass, with secret: Secret) throws(ControlError) {
    try unsafe call(SecretMessage(.eraseClass, [secret.member, .plain("class", protectionClass.name)]))
  }

  /// Erases all keys of the store. Its data is lost.
  public mutating func eraseStore() throws(ControlError) {
    _ = try call(.erase, NoParameters(), returning: NoParameters.self)
  }

  /// Receives the events of the mount until `receive` returns `false` or the daemon ends.
  ///
  /// The first event is ``DaemonEvent/monitoringBegan(_:)``.
  /// - Throws: ``ControlError/Code-swift.enum/noAnswer`` if the daemon has ended.
  public consuming func events(_ receive: (DaemonEvent) -> Bool) throws(ControlError) {
    try send(.events, NoParameters(), more: true)
    while true {
      let reply = try self.receive(EventReply.self, patience: 0)
      if let event = reply.parameters.event, !receive(event) { return }
      guard reply.continues else { return }
    }
  }
}
