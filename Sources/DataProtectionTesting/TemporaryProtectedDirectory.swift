import CProtectfsTesting
@_exported import DataProtectionEssentials
import FoundationEssentials
import ProtectfsIO
import SystemPackage

/// A directory for a test of an app, whose files have protection classes and can be locked.
///
/// The test calls the code of the app with URLs in it, as they are on a device:
///
/// ```swift
/// try await withTemporaryProtectedDirectory { directory in
///   let diary = directory.url.appending(path: "diary.txt")
///   try Data("Today".utf8).write(to: diary, options: .completeFileProtection)
///   try directory.lock()
///   #expect(throws: CocoaError.self) { try Data(contentsOf: diary) }
///   try directory.unlock()
/// }
/// ```
///
/// Where `/dev/fuse` and the command `protectfs` are, it is a mounted store of its own. Elsewhere, an ordinary
/// directory stands in for that; the article "Testing with locks" of DataProtection says what that cannot do.
public final class TemporaryProtectedDirectory: Sendable {
  /// What a directory is.
  public enum Backend: Sendable {
    /// A mounted store.
    case mount
    /// An ordinary directory.
    case standIn
  }

  /// A store could not be made or mounted.
  public struct Failure: Error, CustomStringConvertible {
    /// A sentence for people.
    public let description: String
  }

  private enum Storage: Sendable {
    case mount(MountedStore, command: String)
    case standIn(StandIn)
  }

  /// The directory.
  public let url: URL
  private let parent: URL
  private let storage: Storage

  /// What the directory is. `PROTECTFS_TESTING=stand-in` in the environment of the tests chooses a stand-in also where
  /// a mount could be had.
  public var backend: Backend {
    switch storage {
    case .mount: .mount
    case .standIn: .standIn
    }
  }

  init() throws {
    parent = FileManager.default.temporaryDirectory.resolvingSymlinksInPath()
      .appending(path: "protectfs-testing.\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: parent, withIntermediateDirectories: false)
    do {
      if protectfs_testing_uses_stand_in() == 0 {
        guard let command = MountedStore.command else {
          throw Failure(
            description: "no command protectfs: set PROTECTFS to its path, or PROTECTFS_TESTING=stand-in to do without")
        }
        let store = try MountedStore(in: parent, with: command)
        url = store.mountPoint
        storage = .mount(store, command: command)
      } else {
        url = parent.appending(path: "stand-in")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
        storage = .standIn(try Self.makeStandIn(url.path))
      }
    } catch {
      try? FileManager.default.removeItem(at: parent)
      throw error
    }
  }

  private static func makeStandIn(_ path: String) throws -> StandIn {
    let standIn: StandIn
    do throws(Errno) {
      standIn = try StandIn(path)
    } catch {
      throw Failure(description: "\(path) has no extended attributes (\(error)); set TMPDIR to where there are")
    }
    guard standIn.isInPlace else {
      standIn.remove()
      throw Failure(
        description: "calls on files do not reach DataProtectionTesting: link it into the program that runs the tests")
    }
    return standIn
  }

  /// Locks the directory. Returns when that has taken effect.
  public func lock() throws {
    switch storage {
    case .mount(let store, _): try store.lock()
    case .standIn(let standIn): try standIn.change(to: .locked)
    }
  }

  /// Unlocks the directory.
  public func unlock() throws {
    switch storage {
    case .mount(let store, _): try store.unlock()
    case .standIn(let standIn): try standIn.change(to: .unlocked)
    }
  }

  /// Unmounts it, and removes it with what is in it.
  func remove() throws {
    switch storage {
    case .mount(let store, let command): try store.remove(with: command)
    case .standIn(let standIn): standIn.remove()
    }
    try FileManager.default.removeItem(at: parent)
  }
}

/// Makes a directory whose files can be locked, unlocked at first, calls `body` with it, and removes it.
///
/// - Throws: the error of `body`, or ``TemporaryProtectedDirectory/Failure``.
public func withTemporaryProtectedDirectory<Result>(
  isolation: isolated (any Actor)? = #isolation, _ body: (TemporaryProtectedDirectory) async throws -> Result
) async throws -> Result {
  let directory = try TemporaryProtectedDirectory()
  let result: Result
  do {
    result = try await body(directory)
  } catch {
    try directory.remove()
    throw error
  }
  try directory.remove()
  return result
}
