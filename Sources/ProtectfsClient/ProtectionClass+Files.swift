import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// A file's class is an extended attribute of the file, which the mount provides. These calls read and set it.
extension ProtectionClass {
  /// The class of a file or directory on a mount. A symbolic link is followed.
  ///
  /// - Throws: `ENOTSUP` if the path is not on a protectfs mount.
  public init(ofItemAt path: String) throws(Errno) {
    try Self.requireMount(of: path)
    let name = try String(decoding: PathName(path).attribute(PathName(Self.attributeName)), as: UTF8.self)
    guard let fileClass = Self(name: name) else { throw .notSupported }
    self = fileClass
  }

  /// Sets this class on a file or directory on a mount. A symbolic link is followed.
  ///
  /// A directory's class applies to what is created in it from then on. A file's key is wrapped again. If the class
  /// protects more than the previous one, the file gets a new key, and its contents are re-encrypted in the background.
  /// - Throws: `EACCES` if the old or the new class is not usable now; `ENOTSUP` if the path is not on a protectfs
  ///   mount.
  public func assign(toItemAt path: String) throws(Errno) {
    try Self.requireMount(of: path)
    try PathName(path).setAttribute(PathName(Self.attributeName), to: Array(name.utf8))
  }

  /// Sets this class on a file or directory on a mount without changing the file key.
  ///
  /// - Throws: as ``assign(toItemAt:)``.
  package func rewrap(itemAt path: String) throws(Errno) {
    try Self.requireMount(of: path)
    try PathName(path).setAttribute(PathName(Self.rewrapAttributeName), to: Array(name.utf8))
  }

  /// Other file systems would store an attribute with this name, without effect.
  private static func requireMount(of path: String) throws(Errno) {
    guard try MountedFileSystem.find(containing: path) != nil else { throw .notSupported }
  }
}
