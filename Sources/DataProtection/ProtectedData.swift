import Foundation
import ProtectfsClient
import ProtectfsPolicy
import SystemPackage

/// Whether protected data is available: what UIKit tells of the device, for each protectfs mount.
///
/// A path stands for the mount that it is on. What is said of a mount that is not there is that nothing is available.
public enum ProtectedData {
  /// Whether files of class ``ProtectionClass/complete`` can be used, as `UIApplication.isProtectedDataAvailable` says:
  /// unlocked, or in the grace period of a lock. False where nothing is mounted.
  public static func isAvailable(at url: URL) -> Bool {
    isAvailable(.complete, at: url)
  }

  /// Whether files of a class can be opened.
  public static func isAvailable(_ protectionClass: ProtectionClass, at url: URL) -> Bool {
    guard let state = try? state(at: url) else { return false }
    return ProtectionPolicy.access(for: .open, on: protectionClass, in: state) == .allowed
  }

  /// The state of the mount.
  ///
  /// - Throws: `CocoaError.featureUnsupported` where the path is on no protectfs mount.
  public static func state(at url: URL) throws -> LockState {
    let path = try FileManager.path(of: url)
    return try translating(.reading, path) { () throws(Errno) in try LockState(ofMountAt: path) }
  }

  /// The changes of a mount, as they come. The first event tells how things stand.
  ///
  /// The sequence goes on when the daemon is started anew, or the store mounted later: what was available is told to be
  /// unavailable meanwhile. It ends with the task that listens. Who may not ask the daemon, being neither the mount's owner
  /// nor root, hears of changes within a second, and of no lock beforehand.
  /// - Parameters:
  ///   - url: a path on the mount; the mount point itself does where nothing may be mounted yet.
  ///   - protectionClass: the class whose availability is told.
  ///   - delayingLocks: whether a lock waits, for a bounded time, for the ``LockHold`` of its announcement. Of no effect for
  ///     classes that a lock does not take.
  public static func events(
    at url: URL, of protectionClass: ProtectionClass = .complete, delayingLocks: Bool = false
  ) -> ProtectedDataEvents {
    let mount = FollowedMount(path: url.path(percentEncoded: false))
    return ProtectedDataEvents(mount: mount, protectionClass: protectionClass, delaysLocks: delayingLocks)
  }

  /// Waits until files of a class can be opened; returns at once where they can.
  ///
  /// - Throws: `CancellationError` when the task is cancelled.
  public static func waitUntilAvailable(
    at url: URL, of protectionClass: ProtectionClass = .complete
  ) async throws {
    for await event in events(at: url, of: protectionClass) {
      if case .didBecomeAvailable = event { return }
    }
    throw CancellationError()
  }
}
