import Glibc
import SystemPackage

// The class of a file is an extended attribute of it, which the mount answers and sets. These are the calls for it.
extension ProtectionClass {
  /// The class of a file or directory on a mount. A symbolic link is followed.
  ///
  /// - Throws: `ENOTSUP` where the path is on no protectfs mount.
  public init(ofItemAt path: String) throws(Errno) {
    try Self.requireMount(of: path)
    let getxattr = unsafe Self.function("getxattr", as: GetAttribute.self)
    var value = [UInt8](repeating: 0, count: 64)
    let count = unsafe value.withUnsafeMutableBytes {
      unsafe getxattr(path, Self.attributeName, $0.baseAddress, $0.count)
    }
    guard count >= 0 else { throw Errno(rawValue: errno) }
    guard let fileClass = Self(name: String(decoding: value[..<count], as: UTF8.self)) else { throw .notSupported }
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
    let setxattr = unsafe Self.function("setxattr", as: SetAttribute.self)
    let value = Array(name.utf8)
    let result = unsafe value.withUnsafeBytes {
      unsafe setxattr(path, Self.attributeName, $0.baseAddress, $0.count, 0)
    }
    guard result == 0 else { throw Errno(rawValue: errno) }
  }

  /// Other file systems would store an attribute of this name and mean nothing by it.
  private static func requireMount(of path: String) throws(Errno) {
    guard try MountedFileSystem.find(containing: path) != nil else { throw .notSupported }
  }

  private typealias GetAttribute =
    @convention(c) (
      UnsafePointer<CChar>, UnsafePointer<CChar>, UnsafeMutableRawPointer?, Int
    ) -> Int
  private typealias SetAttribute =
    @convention(c) (
      UnsafePointer<CChar>, UnsafePointer<CChar>, UnsafeRawPointer?, Int, CInt
    ) -> CInt

  /// A function of the C library that Swift's Glibc leaves out (`sys/xattr.h`).
  private static func function<Function>(_ name: String, as type: Function.Type) -> Function {
    guard let address = unsafe dlsym(nil, name) else { preconditionFailure("the C library has no \(name)") }
    return unsafe unsafeBitCast(address, to: type)
  }
}
