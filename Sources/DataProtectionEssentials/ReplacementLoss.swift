import FoundationEssentials
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// What Foundation loses when it replaces a file: an explicit class, encrypted fields, an ACL, the mode, the owner; or
/// the place of the file, if the path is a symbolic link.
struct ReplacementLoss {
  let explicitClass: ProtectionClass?

  /// `nil` if nothing on a mount is lost.
  init?(ofFileAt path: String) throws(Errno) {
    let item: Descriptor
    do throws(Errno) {
      item = try Descriptor.open(PathName(path), [.path, .noFollow])
    } catch {
      // What cannot be reached, Foundation does not replace.
      guard error.isOutOfReach else { throw error }
      return nil
    }
    let status = try item.status()
    switch status.type {
    case .regular: try self.init(of: item, status)
    case .symbolicLink: try self.init(ofLinkAt: path)
    default: return nil
    }
  }

  private init?(of file: borrowing Descriptor, _ status: Status) throws(Errno) {
    guard let names = try Self.attributeNames(of: file) else { return nil }
    let isExplicit = names.contains(ProtectionClass.attribute)
    let isLost =
      isExplicit || names.contains(where: FieldName.isOne) || names.contains(AccessLists.access)
      || (status.user, status.group) != ProtectfsIO.Process.identity
      || status.permissions != ProtectfsIO.Process.umask.map { 0o666 & ~$0 }
    guard isLost, try MountedFileSystem.find(containing: file) != nil else { return nil }
    explicitClass = isExplicit ? try Self.protectionClass(of: file) : nil
  }

  /// Foundation on Linux replaces the link: by a file in the class of the link's directory, or outside of the mount.
  private init?(ofLinkAt path: String) throws(Errno) {
    let target = try FinalTarget.of(path)
    // A link to a place outside is left to Foundation: what is written here is to stay on the mount.
    guard let parent = try? Descriptor.open(PathName(FileManager.parent(of: target)), [.path]),
      try MountedFileSystem.find(containing: parent) != nil
    else { return nil }
    guard let file = try? Descriptor.open(PathName(target), [.path, .noFollow]),
      try Self.attributeNames(of: file)?.contains(ProtectionClass.attribute) == true
    else {
      explicitClass = nil
      return
    }
    explicitClass = try Self.protectionClass(of: file)
  }

  private static func protectionClass(of file: borrowing Descriptor) throws(Errno) -> ProtectionClass? {
    let name = try PathName(descriptor: file).attribute(ProtectionClass.attribute)
    return ProtectionClass(name: String(decoding: name, as: UTF8.self))
  }

  /// `nil` if the file system has no extended attributes.
  private static func attributeNames(of file: borrowing Descriptor) throws(Errno) -> [PathName]? {
    do throws(Errno) {
      return try PathName(descriptor: file).attributeNames()
    } catch .notSupported {
      return nil
    }
  }
}

extension Errno {
  /// Whether a path leads nowhere for this user. After another error of open(2), there may be something.
  var isOutOfReach: Bool {
    [.noSuchFileOrDirectory, .notDirectory, .permissionDenied, .tooManySymbolicLinkLevels, .fileNameTooLong]
      .contains(self)
  }
}
