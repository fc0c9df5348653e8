import DataProtection
import Foundation

/// The notes that the app shows. It forgets them when the device locks, and reads them again when it is unlocked.
final class NoteLibrary: @unchecked Sendable {
  private let store: NoteStore
  private let report: @Sendable (String) -> Void
  private let lock = NSLock()
  private var texts: [String: String] = [:]

  init(store: NoteStore, report: @escaping @Sendable (String) -> Void) {
    self.store = store
    self.report = report
    let center = NotificationCenter.default
    _ = center.addObserver(
      forName: UIApplication.protectedDataWillBecomeUnavailableNotification, object: nil, queue: nil
    ) { [weak self] _ in self?.close() }
    _ = center.addObserver(
      forName: UIApplication.protectedDataDidBecomeAvailableNotification, object: nil, queue: nil
    ) { [weak self] _ in self?.open() }
    if UIApplication.shared.isProtectedDataAvailable { open() }
  }

  /// What is in memory.
  var shown: [String: String] { lock.withLock { texts } }

  private func open() {
    do {
      let pairs = try store.titles().map { ($0, try store.text(of: $0)) }
      lock.withLock { texts = Dictionary(uniqueKeysWithValues: pairs) }
      report("opened \(pairs.count)")
    } catch CocoaError.fileReadNoPermission {
      // Locked again meanwhile; the next notification comes.
      report("locked meanwhile")
    } catch {
      report("failed: \(error)")
    }
  }

  private func close() {
    lock.withLock { texts = [:] }
    report("closed")
  }
}
