import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension PathName {
  static let rekeyAttribute: PathName = "user.protectfs.rekey"

  /// Whether a rekey of the file is pending.
  func isRekeyPending() throws(Errno) -> Bool {
    do throws(Errno) {
      _ = try extendedAttribute(Self.rekeyAttribute)
      return true
    } catch .noData {
      return false
    }
  }

  /// Generates a new key for a file, like `rotate --data`.
  func rekey() throws(Errno) { try setExtendedAttribute(Self.rekeyAttribute, to: [1]) }
}

extension Volume {
  /// Retries what failed, and waits until no rekey is pending.
  func finishRekeys() throws {
    let deadline = ContinuousClock.now + patience
    while true {
      let status = try status()
      if status.pendingRekeys == 0 { return }
      if status.failedRekeys > 0 { try unlock(recoveryKey: recoveryKey) }
      try #require(
        ContinuousClock.now < deadline,
        "\(status.pendingRekeys) pending, \(status.failedRekeys) failed, \(status.lockedRekeys) locked: \(log.suffix(1000))"
      )
      usleep(2000)
    }
  }

  /// Waits until a rekey has finished or failed, or the daemon has ended.
  func awaitRekeyOrEnd() {
    eventually {
      guard let status = try? status() else { return true }
      return status.pendingRekeys <= status.failedRekeys + status.lockedRekeys
    }
  }

  /// Waits until no rekey is pending, except those that wait for an unlock.
  func waitForRekeys(sourceLocation: SourceLocation = #_sourceLocation) throws {
    let deadline = ContinuousClock.now + patience
    while true {
      let status = try status()
      if status.pendingRekeys == status.lockedRekeys { return }
      try #require(
        ContinuousClock.now < deadline, "still pending: \(status.pendingRekeys)", sourceLocation: sourceLocation)
      usleep(2000)
    }
  }
}

/// Compares contents. A failure shows where they differ, and not everything.
func expectSame(
  _ found: [UInt8], _ wanted: [UInt8], _ comment: String = "", sourceLocation: SourceLocation = #_sourceLocation
) {
  let isSame = found == wanted
  guard !isSame else { return }
  let difference = zip(found, wanted).enumerated().first { $0.element.0 != $0.element.1 }?.offset
  #expect(
    isSame,
    "\(comment): \(found.count) of \(wanted.count) bytes, different at \(difference ?? min(found.count, wanted.count))",
    sourceLocation: sourceLocation)
}
