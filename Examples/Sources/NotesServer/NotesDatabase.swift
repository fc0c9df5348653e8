import DataProtection
import Foundation
import GRDB
import Logging
import ProtectedDatabase
import ServiceLifecycle
import Synchronization

/// A database of class `complete`: closed when a lock is announced, and opened again after the unlock.
final class NotesDatabase: Service {
  private let url: URL
  private let logger: Logger
  private let queue = Mutex<DatabaseQueue?>(nil)

  /// The database is closed, so a request is to be answered with 503.
  struct Locked: Error {}

  init(url: URL, logger: Logger) {
    self.url = url
    self.logger = logger
  }

  /// Follows the mount until the service ends.
  func run() async throws {
    for await event in ProtectedData.events(at: url, delayingLocks: true).cancelOnGracefulShutdown() {
      switch event {
      case .didBecomeAvailable: open()
      case .willBecomeUnavailable(let hold):
        // The lock waits until this is done.
        close()
        hold.release()
      case .didBecomeUnavailable: close()
      }
    }
    close()
  }

  private func open() {
    do {
      let opened = try DatabaseQueue(protectedAt: url, protection: .complete)
      try opened.write { try $0.execute(sql: "CREATE TABLE IF NOT EXISTS note (text TEXT NOT NULL)") }
      queue.withLock { $0 = opened }
      logger.info("open")
    } catch {
      // Locked again meanwhile: the next event comes.
      logger.error("not opened: \(error)")
    }
  }

  private func close() {
    let closed = queue.withLock { queue in
      defer { queue = nil }
      return queue
    }
    guard let closed else { return }
    // Waits for the requests that use it.
    do { try closed.close() } catch { logger.error("not closed: \(error)") }
    logger.info("closed")
  }

  // MARK: Requests

  func notes() async throws -> [String] {
    try await opened().read { try String.fetchAll($0, sql: "SELECT text FROM note ORDER BY rowid") }
  }

  func add(_ text: String) async throws {
    try await opened().write { try $0.execute(sql: "INSERT INTO note VALUES (?)", arguments: [text]) }
  }

  private func opened() throws -> DatabaseQueue {
    guard let opened = queue.withLock({ $0 }) else { throw Locked() }
    return opened
  }
}
