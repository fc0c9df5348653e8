import ArgumentParser
import Cryptography
import FUSE
import KeyManagement
import MountDaemon
import ProtectfsClient
import ProtectfsIO
import StoreFormat
import SystemPackage
import TreeCopy

/// Why the command did not do what it was asked for: a status for programs, and a sentence for people.
struct CommandFailure: Error {
  let status: ExitStatus
  let message: String

  init(_ status: ExitStatus, _ message: String) {
    self.status = status
    self.message = message
  }

  /// The failure for an error of one of the modules; `nil` for those of the argument parser.
  init?(_ error: any Error) {
    switch error {
    case let error as CommandFailure: self = error
    case let error as ControlError: self.init(Self.status(of: error), error.message + Advice.about(error))
    case let error as KeyManagementError:
      self.init(Self.status(of: error), error.description + Advice.about(error))
    case let error as MountOptionError: self.init(.usage, error.message)
    case let error as StoreError: self.init(Self.status(of: error), error.description + Advice.about(error))
    case SessionError.badOptions: self.init(.usage, "\(error)")
    case let error as SessionError: self.init(.failure, error.description + Advice.about(error))
    case is CryptographyError: self.init(.failure, "\(error)")
    case let error as FormatError: self.init(.keybagCorrupt, "the keybag cannot be read (\(error))")
    case Errno.resourceTemporarilyUnavailable:
      self.init(
        .failure,
        "no process or thread can be started: the user (ulimit -u) or the control group (pids.max) has too many; end "
          + "some, or raise the limit")
    case let error as Errno: self.init(error == .permissionDenied ? .notPermitted : .failure, "\(error)")
    default: return nil
    }
  }

  /// The failure of a system call on a path.
  init(_ path: String, _ error: Errno) {
    let isPermission = error == .permissionDenied || error == .notPermitted
    self.init(isPermission ? .notPermitted : .failure, "\(path): \(error)")
  }

  /// The failure of reading a manifest.
  init(_ path: String, _ error: ManifestError) {
    let path = path.printable
    switch error {
    case .unreadable(let error): self.init(path, error)
    case .malformed(let reason):
      self.init(.failure, "\(path) is no manifest: 'protectfs manifest --json' makes one (\(reason))")
    case .unsupportedVersion(let version):
      self.init(.failure, "\(path) is a manifest of version \(version); this reads version 1")
    case .repeatedPath(let item): self.init(.failure, "\(path) has \(item.printable) twice; nothing was changed")
    }
  }

  /// Prints the sentence, and ends the process.
  func reportAndExit() -> Never {
    Self.report(message)
    ProtectFS.exit(withError: ExitCode(status.rawValue))
  }

  /// Prints a sentence on standard error, as all of the command's complaints look.
  static func report(_ message: String) {
    StandardStream.writeError("protectfs: \(message)".wrapped(to: StandardStream.errorColumns) + "\n")
  }

  private static func status(of error: ControlError) -> ExitStatus {
    switch error.code {
    case .wrongPasscode: .wrongSecret
    case .lockCancelled: .lockCancelled
    case .unlockCancelled: .unlockCancelled
    case .writesLost: .writesLost
    case .keybagCorrupt: .keybagCorrupt
    case .notMounted: .notMounted
    case .noAnswer: .noAnswer
    case .notPermitted: .notPermitted
    case .passcodeDelayed: .passcodeDelayed
    case .storeErased: .storeErased
    case .tooLittleMemory: .tooLittleMemory
    case .rotationInterrupted: .interrupted
    case .keybagNotWritten, .readOnly, .invalidRequest, .lastWayIn, .failed, .notUnderstood, .cancelled:
      .failure
    }
  }

  private static func status(of error: KeyManagementError) -> ExitStatus {
    switch error {
    case .wrongPasscode, .wrongRecoveryKey, .recoveryKeyMistyped, .wrongKeyFile, .pairingCodeMistyped, .noSuchRequest:
      .wrongSecret
    case .passcodeDelayed: .passcodeDelayed
    case .storeErased: .storeErased
    case .tooLittleMemory: .tooLittleMemory
    case .deviceKeyMissing, .deviceKeyUnreadable, .deviceKeyExposed, .deviceKeyMalformed, .hostUnknown,
      .hostFileMalformed:
      .deviceKeyMissing
    case .foreignDeviceKey: .foreignDeviceKey
    case .keybagMissing: .noStore
    case .keybagMalformed, .keybagAltered, .effaceableSecretMissing: .keybagCorrupt
    case .unsupportedStore: .unsupportedStore
    case .keybagUnreadable(let error), .keybagUnwritable(let error):
      error == .permissionDenied ? .notPermitted : .failure
    default: .failure
    }
  }

  private static func status(of error: StoreError) -> ExitStatus {
    switch error {
    case .noStore: .noStore
    case .alreadyAStore, .notEmpty: .alreadyAStore
    case .inUse, .written, .abandoned: .alreadyMounted
    case .backingUnreadable(_, .permissionDenied): .notPermitted
    case .backingUnreadable(_, .noSuchFileOrDirectory), .backingUnreadable(_, .notDirectory): .noStore
    case .backingUnreadable, .noExtendedAttributes, .noRootRecord, .noLocks, .writerFileMalformed, .readOnlyFileSystem:
      .failure
    }
  }
}

/// Calls `body`. Where a system call fails in it, that is the failure of this path.
func naming<Result: ~Copyable>(_ path: String, _ body: () throws -> Result) throws -> Result {
  do {
    return try body()
  } catch let error as Errno {
    throw CommandFailure(path, error)
  }
}
