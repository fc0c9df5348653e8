import FoundationEssentials
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// A file that is written beside its place, in its class, and then moved there.
package struct StagedFile: ~Copyable {
  private let staging: StagingDirectory
  private let file: Descriptor
  private var length: UInt64 = 0
  /// The fields of the replaced file that are lost, because their key was revoked.
  package let lostFields: [PathName]

  /// What happens to fields of the replaced file whose key was revoked, so that nobody can read them.
  package enum RevokedFields {
    case refuse, drop
  }

  /// Creates an empty file beside a path. If it will replace a file, it takes over the mode, the ACL, the encrypted
  /// fields and, if permitted, the owner.
  ///
  /// - Parameter protectionClass: its explicit class; `nil` if it inherits that of the directory.
  /// - Throws: `ENOTSUP` if the path is not on a protectfs mount, `EACCES` if the class or the fields are locked.
  package init(
    for path: String, in protectionClass: ProtectionClass?, revokedFields: RevokedFields = .refuse
  ) throws(Errno) {
    guard try MountedFileSystem.find(containing: FileManager.parent(of: path)) != nil else { throw .notSupported }
    let staging = try StagingDirectory(for: path)
    if let protectionClass { try staging.assign(protectionClass) }
    let file = try staging.makeFile(in: protectionClass)
    lostFields = try Self.takeOver(from: staging, to: file, revokedFields)
    self.file = file
    self.staging = staging
  }

  /// Copies what a replaced file passes on. Its fields need both classes: they would be lost if either is locked.
  private static func takeOver(
    from staging: StagingDirectory, to file: borrowing Descriptor, _ revokedFields: RevokedFields
  ) throws(Errno) -> [PathName] {
    let replaced: Descriptor
    do throws(Errno) {
      replaced = try staging.parent.open(staging.name, [.path, .noFollow])
    } catch {
      // Only where nothing is, there is nothing to take over.
      guard error == .noSuchFileOrDirectory else { throw error }
      return []
    }
    let status = try replaced.status()
    guard status.type == .regular else { return [] }
    let lists = try AccessLists(of: replaced)
    try file.setMode(lists.setAccess(of: file, takeOverOwner(status, for: file), isReplacing: true))
    let path = PathName(descriptor: replaced)
    var lost: [PathName] = []
    for field in try path.attributeNames() where FieldName.isOne(field) {
      do throws(Errno) {
        try file.setAttribute(field, to: path.attribute(field))
      } catch {
        guard error == .keyRevoked, revokedFields == .drop else { throw error }
        lost.append(field)
      }
    }
    return lost
  }

  /// Gives a file the owner of the replaced one, as far as that is permitted; returns the mode for it. Where the group
  /// is another, it may do what others may.
  private static func takeOverOwner(_ old: Status, for file: borrowing Descriptor) throws(Errno) -> UInt32 {
    let own = try file.status()
    if (own.user, own.group) != (old.user, old.group) {
      do throws(Errno) {
        try file.setOwner(user: old.user, group: old.group)
      } catch {
        try? file.setOwner(user: nil, group: old.group)
      }
    }
    let mode = old.permissions & 0o777
    return try file.status().group == old.group ? mode : mode & (0o707 | (mode & 0o007) << 3)
  }

  /// A path by which the staged file can be written.
  package var path: String { staging.itemPath }

  /// Appends to the file.
  package mutating func write(_ data: Data) throws(Errno) {
    try unsafe data.bytes.withUnsafeBytes { (bytes) throws(Errno) in try unsafe file.write(bytes, at: length) }
    length += UInt64(data.count)
  }

  /// Another descriptor of the file.
  package func duplicateDescriptor() throws(Errno) -> Descriptor { try Descriptor(duplicating: file.rawValue) }

  /// Makes the file durable and gives it its name. A program that wrote it by its path may have replaced it.
  ///
  /// - Parameter isDurable: if `false`, it is made as durable as what a program writes and closes: where nothing is
  ///   replaced, nothing can be lost that was there.
  /// - Throws: `EEXIST` if the name exists and `mayReplace` is false.
  package func commit(mayReplace: Bool = true, isDurable: Bool = true) throws(Errno) {
    if isDurable {
      try file.synchronize()
      try staging.synchronizeFile()
    } else {
      // The kernel writes the pages back, and reports what fails.
      try Descriptor(duplicating: file.rawValue).closeReporting()
    }
    try staging.moveItem(mayReplace: mayReplace, isDurable: isDurable)
  }
}
