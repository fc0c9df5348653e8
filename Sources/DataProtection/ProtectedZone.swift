import Foundation
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// A zone: a directory of records that have one class, and lose their keys together.
///
/// A record is a directory in it. Its fields are those of a file `fields` in that directory (``EncryptedValues``), and
/// every other file there is an asset. Each file has a key of its own, which the key of the zone's class wraps. So
/// fields and assets are available at the same times, and `protectfs erase --class` does what a reset of the zone's key
/// does in CloudKit: none of them can be read again. The keys of the class are those of the whole store: an erasure
/// takes everything that is in the class.
///
/// Fields that are set on a directory, of a zone or a record, are not among these: no passcode and no class is in the
/// key that encrypts them, and they survive an erasure.
///
/// The directory of a record has a field `DataProtection.record`, which tells the record from another that has got its
/// name since.
///
/// Unlike in CloudKit, the key of an asset is not in a field of the record: who removes the fields has not made the
/// assets unreadable.
public struct ProtectedZone: Sendable {
  /// The directory.
  public let url: URL

  /// The zone in a directory, which need not exist.
  public init(at url: URL) {
    self.url = url
  }

  /// Creates the zone. An existing one keeps its records; one whose keys are gone has to be recreated with
  /// ``recreateAfterReset()``. A directory that is no zone becomes one, and gets the class.
  ///
  /// - Throws: `CocoaError.fileWriteFileExists` (516) if a zone of another class is there,
  ///   `CocoaError.featureUnsupported` if the path is not on a protectfs mount, `CocoaError.fileWriteNoPermission`
  ///   (513) while the class is locked, and Foundation's errors.
  public func create(protection: FileProtectionType) throws {
    let manager = FileManager.default
    try manager.createDirectory(at: url, withIntermediateDirectories: true, attributes: [.protectionKey: protection])
    try Self.withLock(on: url) {
      let isZone = manager.fileExists(atPath: try FileManager.path(of: marker))
      for item in isZone ? [url, marker] : [url] where try manager.protection(ofItemAt: item) != protection {
        guard !isZone else {
          throw CocoaError(
            .fileWriteFileExists,
            userInfo: [
              NSFilePathErrorKey: try FileManager.path(of: url), NSURLErrorKey: url,
              NSDebugDescriptionErrorKey: "there is a zone of another class",
            ])
        }
        try manager.setProtection(protection, ofItemAt: url)
      }
      // It takes the class of the directory.
      if !isZone { try Data().write(to: marker) }
    }
  }

  /// Deletes the zone and all its records, also while they are locked or when their keys are gone. The zone goes at
  /// once or not at all; of what the program did not come to remove, which stays under a hidden name,
  /// ``FoundationEssentials/FileManager/removeUnfinishedWrites(in:)`` takes care.
  ///
  /// After a reset, ``recreateAfterReset()`` is the answer: another program may have recreated the zone already, and
  /// this call would delete what it has saved.
  ///
  /// - Throws: Foundation's errors.
  public func delete() throws {
    let path = try FileManager.path(of: url)
    let parent = FileManager.parent(of: path)
    let remains = PathName(StagingName.make())
    try Self.withLock(on: url) {
      try translating(.writing, path) { () throws(Errno) in
        let directory = try Descriptor.open(PathName(parent), [.path, .directory])
        try directory.rename(PathName(url.lastPathComponent), to: remains, in: directory)
        // It is gone. What cannot be removed is in a directory of another user's.
        try? directory.removeTree(remains)
      }
    }
  }

  /// Makes a zone usable again whose keys are gone: removes the files that can never be read again, and keeps those
  /// that can. A zone that is usable, perhaps since another program has recreated it, is left alone.
  ///
  /// Nothing is removed while the class is locked. A call that was interrupted can be repeated.
  /// - Throws: ``ProtectedRecordError`` if the zone does not exist, `CocoaError.fileWriteNoPermission` (513) while the
  ///   class is locked, and Foundation's errors.
  public func recreateAfterReset() throws {
    guard try isReset() else { return }
    try Self.withLock(on: url) {
      guard try isReset() else { return }
      // The new marker is there before the first file goes, and has its name after the last.
      try FileManager.default.recreateRevokedItem(at: marker) { _ in try removeRevokedFiles() }
    }
  }

  private func removeRevokedFiles() throws {
    let path = try FileManager.path(of: url)
    let manager = FileManager.default
    for name in try manager.subpathsOfDirectory(atPath: path) where name != marker.lastPathComponent {
      if Self.isRevoked("\(path)/\(name)") { try manager.removeItem(atPath: "\(path)/\(name)") }
    }
    let names = try manager.contentsOfDirectory(atPath: path)
    try translating(.writing, path) { () throws(Errno) in
      let directory = try Descriptor.open(PathName(path), [.path, .directory])
      // Records of which something is left are not empty.
      for name in names { try? directory.removeDirectory(PathName(name)) }
    }
  }

  /// Calls `body` while no other program does so with this directory (flock(2)).
  static func withLock<Result>(on url: URL, _ body: () throws -> Result) throws -> Result {
    let path = try FileManager.path(of: url)
    while true {
      let directory = try translating(.writing, path) { () throws(Errno) in
        let directory = try Descriptor.open(PathName(path), [.readOnly, .directory])
        try directory.lock()
        return directory
      }
      defer { directory.unlock() }
      // Who had the lock may have deleted the directory, and another may have created it again.
      let isThere = try translating(.writing, path) { () throws(Errno) in
        try directory.status().isSame(as: Descriptor.open(PathName(path), [.path]).status())
      }
      if isThere { return try body() }
    }
  }
}

// MARK: The zone's state

extension ProtectedZone {
  /// The file that makes a directory a zone. Its key goes with those of the records, so that it shows a reset also
  /// where no record is touched.
  private var marker: URL { url.appendingPathComponent(Self.markerName, isDirectory: false) }

  /// - Throws: ``ProtectedRecordError`` if the zone or its key does not exist, `CocoaError.featureUnsupported` if it is
  ///   not on a mount.
  func requireZone() throws {
    let path = try FileManager.path(of: marker)
    do throws(Errno) {
      if try ProtectionStatus(ofItemAt: path).obstacle == .keyRevoked { throw .keyRevoked }
    } catch {
      switch error {
      case .notSupported: throw CocoaError.notProtected(path)
      case .noSuchFileOrDirectory, .notDirectory:
        // Where the mount is missing, nobody has deleted the zone.
        throw Self.isOnMount(path) ? ProtectedRecordError(.zoneNotFound, url) : CocoaError.notProtected(path)
      case .keyRevoked:
        throw ProtectedRecordError(
          .zoneNotFound, url, userDidResetEncryptedData: true, CocoaError(error, .reading, path: path))
      default: throw CocoaError(error, .reading, path: path)
      }
    }
  }

  /// Whether the keys of the zone are gone.
  private func isReset() throws -> Bool {
    do {
      try requireZone()
      return false
    } catch let error as ProtectedRecordError where error.isReset {
      return true
    }
  }

  /// Whether the deepest directory of a path that exists is on a mount.
  private static func isOnMount(_ path: String) -> Bool {
    do throws(Errno) {
      return try MountedFileSystem.find(containing: path) != nil
    } catch {
      guard error == .noSuchFileOrDirectory || error == .notDirectory, path != "/" else { return false }
      return isOnMount(FileManager.parent(of: path))
    }
  }

  private static func isRevoked(_ path: String) -> Bool {
    do throws(Errno) {
      _ = try Descriptor.open(PathName(path), [.readOnly, .nonBlocking, .noFollow])
      return false
    } catch {
      return error == .keyRevoked
    }
  }
}
