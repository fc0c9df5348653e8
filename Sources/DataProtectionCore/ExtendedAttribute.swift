import Glibc
import SystemPackage

/// The attributes of files by which a mount tells of itself and is told (xattr(7)); short texts. Symbolic links are followed.
enum ExtendedAttribute {
  /// An attribute's value.
  static func text(_ name: String, of path: String) throws(Errno) -> String {
    let getxattr = unsafe function("getxattr", as: GetAttribute.self)
    var value = [UInt8](repeating: 0, count: 64)
    let count = unsafe value.withUnsafeMutableBytes { unsafe getxattr(path, name, $0.baseAddress, $0.count) }
    guard count >= 0 else { throw Errno(rawValue: errno) }
    return String(decoding: value[..<count], as: UTF8.self)
  }

  /// Gives an attribute a value.
  static func set(_ name: String, to text: String, of path: String) throws(Errno) {
    let setxattr = unsafe function("setxattr", as: SetAttribute.self)
    let value = Array(text.utf8)
    let result = unsafe value.withUnsafeBytes { unsafe setxattr(path, name, $0.baseAddress, $0.count, 0) }
    guard result == 0 else { throw Errno(rawValue: errno) }
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
