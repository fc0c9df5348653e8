import DataProtection
import Dispatch
import Foundation
import GRDB
import Synchronization

extension DatabasePool {
  /// Opens a database in a protection class, and makes it where there is none.
  ///
  /// As `DatabaseQueue(protectedAt:protection:configuration:)`, but not for classes that a lock takes from open files:
  /// a pool's connections share a mapped `-shm` file, and who touches its pages after the lock is ended by SIGBUS.
  ///
  /// A pool opens its reading connections when they are first needed, which one of class `completeUnlessOpen` cannot do
  /// while locked. ``openReaders()`` opens them before.
  /// - Throws: also ``UnsuitableProtection``.
  public convenience init(
    protectedAt url: URL, protection: FileProtectionType, configuration: Configuration = Configuration()
  ) throws {
    guard !protection.isTakenFromOpenFiles else { throw UnsuitableProtection(protection: protection) }
    var configuration = try configuration.prepared(forDatabaseAt: url, protection: protection)
    // A reader that was closed to save memory could not be opened again while locked.
    configuration.persistentReadOnlyConnections = true
    try self.init(path: url.path(percentEncoded: false), configuration: configuration)
  }

  /// Opens all reading connections, so that none has to be opened while locked.
  public func openReaders() throws {
    let count = configuration.maximumReaderCount
    let isOpen = DispatchSemaphore(value: 0)
    let allAreOpen = DispatchSemaphore(value: 0)
    let errors = Errors()
    for _ in 0..<count {
      asyncRead { result in
        switch result {
        case .failure(let error):
          errors.note(error)
          isOpen.signal()
        case .success:
          // Who has a connection keeps it until each has one, so that they are different ones.
          isOpen.signal()
          allAreOpen.wait()
        }
      }
    }
    for _ in 0..<count { isOpen.wait() }
    for _ in 0..<count { allAreOpen.signal() }
    if let error = errors.first { throw error }
  }
}

/// The first of the errors of several connections.
private final class Errors: Sendable {
  private let noted = Mutex<(any Error)?>(nil)

  var first: (any Error)? { noted.withLock { $0 } }

  func note(_ error: any Error) {
    noted.withLock { noted in if noted == nil { noted = error } }
  }
}

/// A pool was asked for in a class in which it could not outlive a lock.
public struct UnsuitableProtection: Error, CustomStringConvertible {
  /// The class that was asked for.
  public let protection: FileProtectionType

  /// A sentence that says what to do.
  public var description: String {
    "a lock would end a DatabasePool of class \(protection.rawValue) by SIGBUS; use a DatabaseQueue"
  }
}
