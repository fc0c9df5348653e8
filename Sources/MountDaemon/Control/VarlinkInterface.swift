import ProtectfsClient
import ProtectfsPolicy

/// What the service says of itself: the interface `org.varlink.service`.
enum VarlinkInterface {
  /// The names of the interfaces, and their definitions.
  static let descriptions = ["org.varlink.service": service, ControlInterface.name: daemon]

  /// A method of one of them.
  enum Method {
    case information, description
    case daemon(ControlInterface.Method)
  }

  /// The method that a call names.
  static func method(named name: String) throws(VarlinkError) -> Method {
    switch name {
    case "org.varlink.service.GetInfo": return .information
    case "org.varlink.service.GetInterfaceDescription": return .description
    default: break
    }
    let interface = name.split(separator: ".").dropLast().joined(separator: ".")
    guard descriptions[interface] != nil else { throw .interfaceNotFound(interface) }
    guard let method = ControlInterface.Method.allCases.first(where: { $0.qualifiedName == name }) else {
      throw .methodNotFound(name)
    }
    return .daemon(method)
  }

  /// The reply to `GetInfo`.
  struct Information: Encodable, Sendable {
    var vendor = "protectfs"
    var product = "protectfs"
    var version: String
    var url = ""
    var interfaces = ["org.varlink.service", ControlInterface.name]
  }

  /// The definition that every Varlink service has.
  private static let service = """
    # What every Varlink service tells of itself
    interface org.varlink.service

    method GetInfo() -> (
      vendor: string,
      product: string,
      version: string,
      url: string,
      interfaces: []string
    )
    method GetInterfaceDescription(interface: string) -> (description: string)

    error InterfaceNotFound (interface: string)
    error MethodNotFound (method: string)
    error MethodNotImplemented (method: string)
    error InvalidParameter (parameter: string)
    error PermissionDenied ()
    error ExpectedMore ()

    """

  /// The definition of the daemon's own interface; Documentation/PROTOCOL.md holds the same text.
  static let daemon = """
    # The daemon of one protectfs mount: its lock state, and the keys of its protection classes.
    interface org.protectfs.Daemon

    # A protection class; complete is A, completeUnlessOpen B, completeUntilFirstUserAuthentication C, none D and
    # completeWhenUserInactive CX.
    type ProtectionClass (
      complete,
      completeUnlessOpen,
      completeUntilFirstUserAuthentication,
      none,
      completeWhenUserInactive
    )

    # The state of the device: gracePeriod is between the announcement of a lock and its effect, inactive after the
    # period of class CX.
    type LockState (beforeFirstUnlock, unlocked, gracePeriod, locked, inactive)

    # What is in memory of a class's key.
    type KeyAvailability (available, revoking, publicOnly, unavailable)

    type ClassStatus (class: ProtectionClass, key: KeyAvailability, openHandles: int)

    # How the kernel's requests reach the daemon.
    type RequestTransport (device, io_uring)

    # Periods are seconds. secondsUntilRevoked is there while a lock is announced, and is the longest time where clients
    # hold it back, which delayingClients counts; secondsUntilInactive is there while class CX outlives a lock, and
    # secondsUntilRest while a lock leads to beforeFirstUnlock. erased is when the store was, by RFC 3339: nothing can be read
    # then, whatever the state.
    # transportReason says why, unless it was asked for: what waking a processor takes, or what keeps requests from io_uring.
    type Status (
      state: LockState,
      secondsUntilRevoked: ?float,
      secondsUntilInactive: ?float,
      gracePeriod: float,
      inactivityPeriod: float,
      classes: []ClassStatus,
      defaultClass: ProtectionClass,
      backing: string,
      mountPoint: string,
      storeID: string,
      owner: int,
      processID: int,
      version: string,
      isReadOnly: bool,
      isShared: bool,
      knownInodes: int,
      undecodableNames: int,
      refusals: int,
      requests: [string]int,
      delayingClients: int,
      pendingRekeys: int,
      failedRekeys: int,
      lockedRekeys: int,
      secondsUntilRest: ?float,
      erased: ?string,
      transport: RequestTransport,
      transportReason: ?string,
      host: ?string,
      hostClasses: ?[]ProtectionClass
    )

    type EventKind (
      monitoringBegan,
      willBecomeUnavailable,
      didBecomeUnavailable,
      didBecomeAvailable,
      accessDenied,
      eventsDropped
    )

    # What is there beside event: state for monitoringBegan; classes and seconds for willBecomeUnavailable; classes for
    # didBecomeUnavailable and didBecomeAvailable; code (257 reading, 513 writing), class, path and pid for
    # accessDenied; count for eventsDropped.
    type Event (
      event: EventKind,
      state: ?LockState,
      classes: ?[]ProtectionClass,
      seconds: ?float,
      code: ?int,
      class: ?ProtectionClass,
      path: ?string,
      pid: ?int,
      count: ?int
    )

    method GetStatus() -> (status: Status)

    # Announces a lock and, after the grace period, wipes the keys of classes A and B; that of CX follows. Without
    # gracePeriod the mount's own counts. With inactive, that of CX goes right after them. Replies when the lock has taken
    # effect, with inactive also for CX, or at once if wait is false.
    method Lock(gracePeriod: ?float, inactive: ?bool, wait: ?bool) -> ()

    # Locks every class but none at once, open files of class B included: as before the first unlock. Replies when that has
    # taken effect, with WritesLost as Lock does. For a file system that goes on without its mount point.
    method LockAll() -> ()

    # Replies when what the kernel was writing back has been written, with Failed where the backing store does not take it.
    # To be called before an unmount, which before Linux 6.16 does not wait for that.
    method FinishWrites() -> ()

    # Unlocks with one of the three, or cancels a lock in its grace period. The bytes of a key file are hexadecimal digits.
    # Root alone may set login: a login program has accepted the passcode, which then counts as no guess, and no delay holds.
    method Unlock(passcode: ?string, recoveryKey: ?string, keyFile: ?string, login: ?bool) -> ()

    # Replaces the passcode that is given, or the only one where something else opens the store.
    # login is as for Unlock.
    method ChangePasscode(
      passcode: ?string,
      recoveryKey: ?string,
      keyFile: ?string,
      newPasscode: string,
      login: ?bool
    ) -> ()

    # Adds one of the four new secrets as a protector, called label. A TPM passcode is one that the machine's TPM has a part in.
    method AddKey(
      passcode: ?string,
      recoveryKey: ?string,
      keyFile: ?string,
      newPasscode: ?string,
      newTPMPasscode: ?string,
      newRecoveryKey: ?string,
      newKeyFile: ?string,
      label: ?string
    ) -> ()

    # Removes the protector with an identity of 32 hexadecimal digits.
    method RemoveKey(passcode: ?string, recoveryKey: ?string, keyFile: ?string, id: string) -> ()

    # Makes the machine a host of the store that asked for it with that pairing code. It gets the keys of the classes that it
    # asked for, or of these; class none needs none.
    method AddHost(
      passcode: ?string,
      recoveryKey: ?string,
      keyFile: ?string,
      pairingCode: string,
      classes: ?[]ProtectionClass
    ) -> ()

    # Gives the host with an identity of 32 hexadecimal digits the keys of these classes, in place of those that it has. It
    # may have kept what it had until the class has a new key.
    method SetHost(
      passcode: ?string,
      recoveryKey: ?string,
      keyFile: ?string,
      id: string,
      classes: []ProtectionClass
    ) -> ()

    # Locks without a grace period, and has all other hosts of the store do so. Class CX goes too with inactive, every class but
    # none with everyClass. Replies when all have said that they locked, or after timeout seconds (30), with the names of those
    # that have not.
    method LockHosts(inactive: ?bool, everyClass: ?bool, timeout: ?float) -> (silent: []string)

    # Only with more: gives a class a new key and wraps the keys of all its files anew, or goes on with that. Replies a few
    # times a second with how far it has come; the old key is gone when isFinished. The last reply says otherwise where so many
    # files could not be changed (kept), which still need it. A client that goes ends it early.
    method RotateClassKey(passcode: ?string, recoveryKey: ?string, keyFile: ?string, class: ProtectionClass) -> (
      files: int,
      rewrapped: int,
      damaged: int,
      kept: ?int,
      isFinished: bool
    )

    # Erases the keys of a class, which gets a new one for new files: what was encrypted under them is gone.
    method EraseClassKeys(passcode: ?string, recoveryKey: ?string, keyFile: ?string, class: ProtectionClass) -> ()

    # Erases all keys of the store: what is in it is gone.
    method EraseStore() -> ()

    # Only with more: a reply for each event until the client goes. The first is monitoringBegan.
    method MonitorEvents() -> (event: Event)

    # Only with more: holds the next announced lock back until the client goes, or calls anything else. The first reply, without
    # seconds, says that the client is registered; the second and last one comes with the announcement of a lock that has a
    # grace period, and says for how many seconds from then it waits for this client at most.
    method DelayLock() -> (seconds: ?float)

    # The passcode, the recovery key or the key file does not open the store; nothing has changed.
    error WrongPasscode (message: string)

    # Too many passcodes were wrong: none is tried for as long as the message says. Recovery keys and key files are.
    error PasscodeDelayed (message: string)

    # A passcode takes more memory than the daemon's control group leaves, so none was tried and nothing was changed.
    error TooLittleMemory (message: string)

    # The keys of the store were erased.
    error StoreErased (message: string)

    # The last protector cannot be removed.
    error LastWayIn (message: string)

    # The rotation did not come to its end: the mount was locked, or a file could not be read. Run again, it goes on.
    error RotationInterrupted (message: string)

    # An unlock came before the lock that was waited for had taken effect.
    error LockCancelled (message: string)

    # A lock was asked for while the secret was being checked: nothing was unlocked.
    error UnlockCancelled (message: string)

    # The lock has taken effect, but the backing store did not answer or failed, or a write(2) that was under way went on: the
    # message names files that have lost writes, or may have.
    error WritesLost (message: string)

    # The keybag cannot be read, or is damaged.
    error KeybagCorrupt (message: string)

    # The new keybag could not be written; the old one still counts.
    error KeybagNotWritten (message: string)

    # The mount is read-only.
    error ReadOnly (message: string)

    # A parameter has a value that cannot be meant.
    error InvalidRequest (message: string)

    # Anything else.
    error Failed (message: string)

    """
}
