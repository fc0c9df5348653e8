import Cryptography
import KeyManagement
import ProtectfsIO
import StoreFormat
import SystemPackage

/// The meaning of a name in a backing directory.
enum EntryName {
  /// A name that the mount shows, with its sidecar if it is long.
  case plain(PathName, sidecar: PathName?)
  /// The sidecar of another name, and whether that name exists.
  case sidecar(hasFile: Bool)
  /// A name that the mount does not show.
  case wrong(Defect, sidecar: PathName?)

  /// Decodes a name.
  ///
  /// - Throws: the error of reading a sidecar.
  init(_ name: PathName, in directory: borrowing Descriptor, identifier: [UInt8], _ volume: VolumeKeys) throws(Errno) {
    switch NameEncoding.parse(name.bytes) {
    case .undecodable:
      self = .wrong(.foreignEntry, sidecar: nil)
    case .sidecar:
      let file = PathName(bytes: name.bytes.dropLast(NameEncoding.sidecarSuffix.count))
      self = .sidecar(hasFile: try directory.exists(file))
    case .direct(let encrypted):
      let plain = volume.entryName(encrypted, in: identifier)
      self = plain.map { .plain($0, sidecar: nil) } ?? .wrong(.nameDamaged, sidecar: nil)
    case .hashed(let sidecarName):
      let sidecar = PathName(bytes: sidecarName)
      guard let encrypted = try Self.contents(ofSidecar: sidecar, in: directory) else {
        self = .wrong(.sidecarMissing, sidecar: nil)
        return
      }
      guard Self.isSidecar(encrypted, of: name) else {
        self = .wrong(.sidecarDamaged, sidecar: sidecar)
        return
      }
      let plain = volume.entryName(encrypted, in: identifier)
      self = plain.map { .plain($0, sidecar: sidecar) } ?? .wrong(.nameDamaged, sidecar: sidecar)
    }
  }

  /// The maximum length of a sidecar's content, in bytes.
  static let longestSidecar = NameEncoding.longestName + NameEncoding.overhead

  /// The content of a sidecar, up to one byte more than allowed; `nil` if it does not exist.
  static func contents(
    ofSidecar name: PathName, in directory: borrowing Descriptor
  ) throws(Errno) -> [UInt8]? {
    do throws(Errno) {
      let path = try directory.open(name, [.path, .noFollow])
      guard try path.status().type == .regular else { return [] }
      let file = try path.readable { (path) throws(Errno) in try Descriptor.open(path, [.readOnly, .nonBlocking]) }
      return try file.readAll(limit: longestSidecar + 1)
    } catch .noSuchFileOrDirectory {
      return nil
    }
  }

  private static func isSidecar(_ encrypted: [UInt8], of name: PathName) -> Bool {
    (try? NameEncoding.isSidecar(encrypted, of: name.bytes, digest: sha256)) ?? false
  }
}

extension Descriptor {
  /// Calls `body` with the path of this descriptor, which was opened with `O_PATH`. If its mode denies its owner
  /// access, calls `body` again with temporary owner permissions: a file that the mount can serve must not be reported
  /// as unreadable.
  func readable<Result: ~Copyable>(
    adding permissions: UInt32 = 0o400, _ body: (PathName) throws(Errno) -> Result
  ) throws(Errno) -> Result {
    let path = PathName(descriptor: self)
    do throws(Errno) {
      return try body(path)
    } catch .permissionDenied {
      var failure: Errno?
      let result = try addingOwnerPermissions(permissions, notRestored: { (error, _) in failure = error }) {
        () throws(Errno) in
        try body(path)
      }
      if let failure { throw failure }
      return result
    }
  }
}
