/// An error of a daemon or of the connection to it.
public struct ControlError: Error, Sendable, Hashable, Codable, CustomStringConvertible {
  /// The kind of error, for programs. Those of the first group are Varlink errors. Later versions may add others.
  @nonexhaustive
  public enum Code: String, Sendable, Codable, CaseIterable {
    /// The passcode or the recovery key does not open the store. The error does not say which part was wrong.
    case wrongPasscode = "WrongPasscode"
    /// An unlock came before the lock that the call waited for had taken effect.
    case lockCancelled = "LockCancelled"
    /// A lock was asked for while the secret of an unlock was being checked, so nothing was unlocked.
    case unlockCancelled = "UnlockCancelled"
    /// The lock has taken effect, but the backing store did not respond, so files may have lost writes. The message
    /// names them.
    case writesLost = "WritesLost"
    /// The store's keybag cannot be read or is damaged.
    case keybagCorrupt = "KeybagCorrupt"
    /// The new keybag could not be written. The old one remains valid.
    case keybagNotWritten = "KeybagNotWritten"
    /// There were too many wrong passcodes, so none is checked for some time. The message says how long.
    case passcodeDelayed = "PasscodeDelayed"
    /// The daemon's control group leaves too little memory for a passcode, so none was tried. The message says how much
    /// it takes.
    case tooLittleMemory = "TooLittleMemory"
    /// The keys of the store were erased.
    case storeErased = "StoreErased"
    /// The only protector cannot be removed.
    case lastWayIn = "LastWayIn"
    /// A rotation did not finish. It can be continued.
    case rotationInterrupted = "RotationInterrupted"
    /// The file system is mounted read-only.
    case readOnly = "ReadOnly"
    /// A parameter has an invalid value, such as an empty passcode or a negative period.
    case invalidRequest = "InvalidRequest"
    /// Any other failure in the daemon.
    case failed = "Failed"

    /// There is no protectfs mount at the path.
    case notMounted = "NotMounted"
    /// The path is on a mount whose daemon does not answer.
    case noAnswer = "NoAnswer"
    /// The mount belongs to another user.
    case notPermitted = "NotPermitted"
    /// The task that waited was cancelled. What it asked for may happen all the same.
    case cancelled = "Cancelled"
    /// The answer is not understood: the daemon has another version, or is not protectfs.
    case notUnderstood = "NotUnderstood"
  }

  /// The kind of error.
  public let code: Code
  /// A sentence for users. It says what to do, if that is known.
  public let message: String

  /// Creates an error.
  public init(_ code: Code, _ message: String) {
    self.code = code
    self.message = message
  }

  /// The sentence for users.
  public var description: String { message }
}
