import LinuxIO
import StoreFormat
import SystemPackage

/// The turn to try a passcode on a store: one process at a time reads how many were wrong, tries one, and writes the new
/// count. It is a lock on `attempts.new`, which ends with its process whatever becomes of it.
package struct PasscodeTurn: ~Copyable {
  /// `nil` where no turn is needed, and where the store cannot be written to: then nothing is counted in it.
  private var file: AtomicFile?

  fileprivate init(_ file: consuming AtomicFile?) {
    self.file = file
  }

  /// Writes the new count, and ends the turn; returns whether it could be written.
  mutating func write(_ record: AttemptsRecord) -> Bool {
    guard var file = file.take() else { return false }
    do throws(Errno) {
      try unsafe record.bytes.withBytes { (bytes) throws(Errno) in try unsafe file.commit(bytes) }
      return true
    } catch {
      return false
    }
  }
}

extension KeybagFile {
  static let attemptsName: PathName = "attempts"
  /// Longer than a passcode takes to be tried, also by several processes one after another.
  private static let patience = Duration.seconds(5)

  /// Waits for the turn to try a secret. A recovery key and a key file cannot be guessed, and need none.
  ///
  /// Whoever waits here may hold nothing that a lock of the mount waits for: the process whose turn it is may be stopped.
  /// - Throws: `passcodeAttemptRunning` when another process does not end its turn.
  package func turn(
    toTry secret: borrowing UnlockSecret, patience: Duration = KeybagFile.patience
  ) throws(KeyManagementError) -> PasscodeTurn {
    guard secret.kind.takesPasscode else { return PasscodeTurn(nil) }
    do throws(Errno) {
      return PasscodeTurn(try AtomicFile(replacing: Self.attemptsName, in: directory, patience: patience))
    } catch {
      guard error != .wouldBlock else { throw .passcodeAttemptRunning }
      return PasscodeTurn(nil)
    }
  }
}
