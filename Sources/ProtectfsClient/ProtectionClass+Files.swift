import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// The class of a file is an extended attribute of it, which the mount answers and sets. These are the calls for it.
extension ProtectionClass {
  /// The class of a file or directory on a mount. A symbolic link is followed.
  ///
  /// - Throws: `ENOTSUP` where the path is on no protectfs mount.
  public init(ofItemAt path: String) throws(Errno) {
    try Self.requireMount(of: path)
    let name = try String(decoding: PathName(path).attribute(PathName(Self.attributeName)), as: UTF8.self)
    guard let fileClass = Self(name: name) else { throw .notSupported }
    self = fileClass
  }

  /// Puts a file or directory on a mount into the class. A symbolic link is followed.
  ///
  /// A directory's class is that of what is created in it from then on. Of a file, the key is wrapped anew; where the class
  /// protects more than the one before, the file gets a new key, and the contents are encrypted under that in the
  /// background.
  /// - Throws: `EACCES` where the old class or the new one is not usable now; `ENOTSUP` where the path is on no
  ///   protectfs mount.
  public func assign(toItemAt path: String) throws(Errno) {
    try Self.requireMount(of: path)
    try PathName(path).setAttribute(PathName(Self.attributeName), to: Array(name.utf8))
  }

  /// Puts a file or directory on a mount into the class, and leaves a file the key that it has.
  ///
  /// - Throws: as ``assign(toItemAt:)``.
  package func rewrap(itemAt path: String) throws(Errno) {
    try Self.requireMount(of: path)
    try PathName(path).setAttribute(PathName(Self.rewrapAttributeName), to: Array(name.utf8))
  }

  /// Other file systems would store an attribute of this name and mean nothing by it.
  private static func requireMount(of path: String) throws(Errno) {
    guard try MountedFileSystem.find(containing: path) != nil else { throw .notSupported }
  }
}
