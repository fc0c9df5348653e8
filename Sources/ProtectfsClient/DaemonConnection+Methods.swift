import ProtectfsPolicy

// The methods of the control interface; Documentation/PROTOCOL.md has their definitions.
extension DaemonConnection {
  /// A secret that opens a store, in memory that the caller wipes.
  @unsafe public enum Secret {
    /// What the user knows, UTF-8 text.
    case passcode(UnsafeRawBufferPointer)
    /// The same, for a way in that the machine's TPM has a part in.
    case tpmPasscode(UnsafeRawBufferPointer)
    /// What `protectfs init` printed, UTF-8 text.
    case recoveryKey(UnsafeRawBufferPointer)
    /// The content of a key file, 32 to 1024 bytes.
    case keyFile(UnsafeRawBufferPointer)

    /// The parameter of a call that is opened by it.
    var member: SecretMessage.Member {
      switch unsafe self {
      case .passcode(let bytes), .tpmPasscode(let bytes): unsafe .text(.passcode, bytes)
      case .recoveryKey(let bytes): unsafe .text(.recoveryKey, bytes)
      case .keyFile(let bytes): unsafe .bytes(.keyFile, bytes)
      }
    }

    /// The parameter of a call that adds it.
    var newMember: SecretMessage.Member {
      switch unsafe self {
      case .passcode(let bytes): unsafe .text(.newPasscode, bytes)
      case .tpmPasscode(let bytes): unsafe .text(.newTPMPasscode, bytes)
      case .recoveryKey(let bytes): unsafe .text(.newRecoveryKey, bytes)
      case .keyFile(let bytes): unsafe .bytes(.newKeyFile, bytes)
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

  /// Asks for the state of the mount, however long the daemon takes.
  package mutating func statusWhenItAnswers() throws(ControlError) -> DaemonStatus {
    try call(.status, NoParameters(), returning: StatusReply.self, patience: 0).status
  }

  /// Locks every class but `none`, open files of class B included, at once: as before the first unlock. Returns when it
  /// has taken effect.
  package mutating func lockAll() throws(ControlError) {
    _ = try call(.lockAll, NoParameters(), returning: NoParameters.self, patience: 0)
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
    try unsafe call(SecretMessage(.changePasscode, [secret.member, .text(.newPasscode, newPasscode)]))
  }

  /// Adds a way in, called `label`.
  public mutating func addKey(_ new: Secret, label: String, with secret: Secret) throws(ControlError) {
    try unsafe call(SecretMessage(.addKey, [secret.member, new.newMember, .plain("label", label)]))
  }

  /// Removes the way in with that identity: 32 hexadecimal digits, as `protectfs key list` shows it.
  ///
  /// - Throws: ``ControlError/Code-swift.enum/lastWayIn``.
  public mutating func removeKey(_ id: String, with secret: Secret) throws(ControlError) {
    try unsafe call(SecretMessage(.removeKey, [secret.member, .plain("id", id)]))
  }

  /// Gives a class a new key, and wraps the keys of all its files anew; goes on with a rotation that was cut short.
  ///
  /// - Parameter report: told a few times a second how far it has come, and at the end; ends it early by returning false.
  /// - Throws: ``ControlError/Code-swift.enum/rotationInterrupted``, and ``ControlError/Code-swift.enum/failed`` where files
  ///   cannot be changed, as the last report says; both class keys are kept then.
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

  /// Erases the keys of a class: what was encrypted under them is gone. The class gets a new key for new files.
  public mutating func erase(_ protectionClass: ProtectionClass, with secret: Secret) throws(ControlError) {
    try unsafe call(SecretMessage(.eraseClass, [secret.member, .plain("class", protectionClass.name)]))
  }

  /// Erases all keys of the store: what is in it is gone.
  public mutating func eraseStore() throws(ControlError) {
    _ = try call(.erase, NoParameters(), returning: NoParameters.self)
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
