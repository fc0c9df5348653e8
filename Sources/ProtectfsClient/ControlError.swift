/// Why a daemon could not be asked, or did not do what it was asked for.
public struct ControlError: Error, Sendable, Hashable, Codable, CustomStringConvertible {
  /// The kind of error, for programs. Those of the first group travel as Varlink errors.
  public enum Code: String, Sendable, Codable, CaseIterable {
    /// The passcode or the recovery key does not open the store. Says not which part was wrong.
    case wrongPasscode = "WrongPasscode"
    /// An unlock came before the lock that was waited for had taken effect.
    case lockCancelled = "LockCancelled"
    /// The lock has taken effect, but the backing store did not answer: files may have lost writes. The message names them.
    case writesLost = "WritesLost"
    /// The store's keybag cannot be read or is damaged.
    case keybagCorrupt = "KeybagCorrupt"
    /// The new keybag could not be written; the old one still counts.
    case keybagNotWritten = "KeybagNotWritten"
    /// Too many passcodes were wrong: for some time none is tried. The message says for how long.
    case passcodeDelayed = "PasscodeDelayed"
    /// The keys of the store were erased.
    case storeErased = "StoreErased"
    /// The only way in cannot be removed.
    case lastWayIn = "LastWayIn"
    /// A rotation did not come to its end; it can be gone on with.
    case rotationInterrupted = "RotationInterrupted"
    /// The file system is mounted read-only.
    case readOnly = "ReadOnly"
    /// A parameter has a value that cannot be meant: an empty passcode, a negative period.
    case invalidRequest = "InvalidRequest"
    /// Anything else that failed in the daemon.
    case failed = "Failed"

    /// There is no protectfs mount at the path.
    case notMounted = "NotMounted"
    /// It is mounted, and its daemon does not answer.
    case noAnswer = "NoAnswer"
    /// The mount belongs to another user.
    case notPermitted = "NotPermitted"
    /// The answer is not understood: the daemon is of another version, or no protectfs at all.
    case notUnderstood = "NotUnderstood"
  }

  /// The kind of error.
  public let code: Code
  /// A sentence for people, which says what to do where that can be known.
  public let message: String

  /// An error of these values.
  public init(_ code: Code, _ message: String) {
    self.code = code
    self.message = message
  }

  /// The sentence for people.
  public var description: String { message }
}
