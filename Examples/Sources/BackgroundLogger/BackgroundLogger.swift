import DataProtection
import Foundation
import Synchronization

/// A log that is written in the background, also while locked, and kept where it can be read while unlocked only.
///
/// Records go to files of class `completeUnlessOpen`. After an unlock they are merged into a file of class `complete`,
/// and are removed where they were when that is on disk. A crash between the two duplicates nothing, as records have
/// names.
public final class BackgroundLogger: Sendable {
  private let inbox: LogInbox
  private let store: LogStore
  private let directory: URL
  private let session = Mutex<LogSession?>(nil)

  /// A log in a directory on a protectfs mount, which is made where there is none.
  public init(directory: URL) throws {
    self.directory = directory
    inbox = try LogInbox(directory: directory.appendingPathComponent("inbox"))
    store = try LogStore(directory: directory.appendingPathComponent("store"))
  }

  /// Appends a record, in every state of the lock. After a failure the next record begins another session.
  @discardableResult
  public func append(_ message: String) throws -> LogRecord {
    try session.withLock { session in
      let open = try session ?? LogSession(in: inbox.directory)
      session = nil
      let record = try open.append(message)
      session = open
      return record
    }
  }

  /// Has the records so far outlive a crash of the machine or of the daemon.
  ///
  /// A daemon that is gone is noticed here: the kernel takes what is written to its files for a while. After a failure
  /// the next record begins another session.
  public func synchronize() throws {
    try session.withLock { session in
      let open = session
      session = nil
      try open?.synchronize()
      session = open
    }
  }

  /// The merged records, in order.
  ///
  /// - Throws: `CocoaError.fileReadNoPermission` while locked.
  public func records() throws -> [LogRecord] { try store.records() }

  /// Merges what was written so far. A session of another program that goes on is merged when it has ended.
  ///
  /// - Throws: `CocoaError.fileReadNoPermission` or `.fileWriteNoPermission` while locked; what was not merged then is
  ///   merged the next time.
  public func merge() throws {
    try endSession()
    // One at a time, whichever program does it.
    let hold = try DirectoryHold(directory)
    defer { hold.release() }
    try store.removeLeftovers()
    let contents = try inbox.contents()
    try store.add(contents.records)
    try inbox.remove(contents)
  }

  /// Merges after each unlock, and at once where nothing is locked, until its task is cancelled.
  ///
  /// - Parameter report: told what came of each merge. One that the next lock has overtaken has failed, and is made up
  ///   for.
  public func mergeAfterUnlocks(_ report: (Result<Void, any Error>) -> Void = { _ in }) async {
    for await event in ProtectedData.events(at: directory) {
      switch event {
      case .didBecomeAvailable: report(Result { try merge() })
      // The daemon may be gone, and then its files are.
      case .didBecomeUnavailable: try? endSession()
      case .willBecomeUnavailable(let hold): hold.release()
      }
    }
  }

  /// The next record begins another session.
  private func endSession() throws {
    try session.withLock { session in
      defer { session = nil }
      try session?.close()
    }
  }
}
