import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// Counts what failed of many, and says each time why.
final class FailureCount: Sendable {
  private struct Counts {
    var total = 0
    var failed = 0
    var onlyStatus: ExitStatus?
  }

  private let counts = RankedMutex(.commandProgress, Counts())

  /// How many were tried.
  var total: Int { counts.withLock { $0.total } }

  /// How many of them failed.
  var failed: Int { counts.withLock { $0.failed } }

  /// Runs `body` for one path, and reports what it throws.
  func attempt(_ path: String, _ body: () throws(Errno) -> Void) {
    var failure: Errno?
    do throws(Errno) { try body() } catch { failure = error }
    count(path, failure)
  }

  /// Counts one that was tried, and reports what it failed with.
  func count(_ path: String, _ error: Errno?) {
    count(error.map { Self.failure(path, $0) })
  }

  /// Counts one that was tried, and reports why it failed if it did.
  func count(_ failure: CommandFailure?) {
    counts.withLock { counts in
      counts.total += 1
      guard let failure else { return }
      counts.failed += 1
      counts.onlyStatus = counts.failed == 1 ? failure.status : nil
      CommandFailure.report(failure.message)
    }
  }

  /// - Throws: when something failed; where that is one thing of one, its own status.
  func finish(of verb: String) throws(CommandFailure) {
    let counts = counts.withLock { $0 }
    guard counts.failed > 0 else { return }
    guard counts.total > 1 || counts.onlyStatus == nil else {
      throw CommandFailure(counts.onlyStatus ?? .failure, "nothing was \(verb)")
    }
    throw CommandFailure(.partial, "\(counts.failed) of \(counts.total) could not be \(verb)")
  }

  private static func failure(_ path: String, _ error: Errno) -> CommandFailure {
    switch error {
    case .notSupported, .notSupportedOnSocket:
      return CommandFailure(.notMounted, "\(path.printable) is not on a protectfs mount")
    case .keyRevoked:
      return CommandFailure(
        .keyRevoked, "\(path.printable): its class key was erased, reset or rotated away; nothing opens it any more")
    case .noKey:
      return CommandFailure(
        .failure,
        "\(path.printable): the keybag does not have its class key; 'protectfs fsck' says what brings "
          + "it back")
    case .permissionDenied:
      if let status = try? ProtectionStatus(ofItemAt: path), status.obstacle == .classLocked {
        return CommandFailure(
          .locked, "\(path.printable) is locked: its class is \(status.protectionClass.name); unlock the mount first")
      }
      return CommandFailure(
        .notPermitted, "\(path.printable): \(error); its permissions or a class that is locked now do not allow it")
    default:
      return CommandFailure(path.printable, error)
    }
  }
}
