import SystemPackage

// The class of a file is an extended attribute of it, which the mount answers and sets. These are the calls for it.
extension ProtectionClass {
  /// The class of a file or directory on a mount. A symbolic link is followed.
  ///
  /// - Throws: `ENOTSUP` where the path is on no protectfs mount.
  public init(ofItemAt path: String) throws(Errno) {
    try Self.requireMount(of: path)
    guard let fileClass = Self(name: try ExtendedAttribute.text(Self.attributeName, of: path)) else {
      throw .notSupported
    }
    self = fileClass
  }

  /// Puts a file or directory on a mount into the class. A symbolic link is followed.
  ///
  /// A directory's class is that of what is created in it from then on. Of a file, the contents stay as they are and
  /// its key is wrapped anew.
  /// - Throws: `EACCES` where the old class or the new one is not usable now; `ENOTSUP` where the path is on no
  ///   protectfs mount.
  public func assign(toItemAt path: String) throws(Errno) {
    try Self.requireMount(of: path)
    try ExtendedAttribute.set(Self.attributeName, to: name, of: path)
  }

  /// Other file systems would store an attribute of this name and mean nothing by it.
  private static func requireMount(of path: String) throws(Errno) {
    guard try MountedFileSystem.find(containing: path) != nil else { throw .notSupported }
  }
}
