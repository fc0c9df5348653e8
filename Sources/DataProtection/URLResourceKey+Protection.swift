import Foundation
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// The keys of Apple's systems that Foundation on Linux lacks. It ignores them, so URL+ResourceValues.swift and
// NSURL+ResourceValues.swift have its calls with these keys.
extension URLResourceKey {
  /// The class of a file or directory: ``URLFileProtection``.
  public static let fileProtectionKey = URLResourceKey(rawValue: "NSURLFileProtectionKey")
  /// Whether the file system has protection classes: whether it is a protectfs mount.
  public static let volumeSupportsFileProtectionKey = URLResourceKey(rawValue: "NSURLVolumeSupportsFileProtectionKey")

  /// The keys of this module.
  static let protectionKeys: Set<URLResourceKey> = [.fileProtectionKey, .volumeSupportsFileProtectionKey]
}

/// The values of this module's keys.
enum ProtectionResourceValues {
  /// The values in the form in which `NSURL` has them, without those that the item does not have.
  ///
  /// - Throws: Foundation's error if the file does not exist.
  static func of(_ url: URL, _ keys: Set<URLResourceKey>) throws -> [URLResourceKey: Any] {
    let path = try path(of: url)
    var values: [URLResourceKey: Any] = [:]
    do throws(Errno) {
      let item = try Descriptor.open(PathName(path), [.path, .noFollow])
      if keys.contains(.fileProtectionKey), let protection = try protection(of: item) {
        values[.fileProtectionKey] = NSString(string: protection.rawValue)
      }
      if keys.contains(.volumeSupportsFileProtectionKey) {
        values[.volumeSupportsFileProtectionKey] = NSNumber(value: try MountedFileSystem.find(containing: item) != nil)
      }
    } catch {
      throw CocoaError(error, .reading, path: path)
    }
    return values
  }

  /// The class of a file or directory; `nil` elsewhere than on a mount, for anything else, and for what the user may
  /// not read, of which the other values are available. Resource values are those of a symbolic link itself, which has
  /// no class.
  private static func protection(of item: borrowing Descriptor) throws(Errno) -> URLFileProtection? {
    guard try hasClass(item) else { return nil }
    do throws(Errno) {
      return URLFileProtection(try ProtectionClass(ofItemAt: PathName(descriptor: item).description))
    } catch {
      if error == .notSupported || error == .permissionDenied { return nil }
      throw error
    }
  }

  /// The path without the slash that a URL of a directory ends with: it would follow a symbolic link.
  private static func path(of url: URL) throws -> String {
    let path = try FileManager.path(of: url)
    return path.count > 1 && path.hasSuffix("/") ? String(path.dropLast()) : path
  }

  private static func hasClass(_ item: borrowing Descriptor) throws(Errno) -> Bool {
    let type = try item.status().type
    return type == .regular || type == .directory
  }

  /// Sets the class to a value that was given to one of Foundation's calls: a ``URLFileProtection`` or its raw value.
  ///
  /// - Throws: `CocoaError.featureUnsupported` for another value, and for a symbolic link, which is not followed.
  static func setProtection(_ value: Any?, of url: URL) throws {
    guard let protection = value as? URLFileProtection ?? (value as? String).map(URLFileProtection.init) else {
      throw CocoaError(
        .featureUnsupported,
        userInfo: [NSURLErrorKey: url, NSDebugDescriptionErrorKey: "\(value ?? "nil") is no URLFileProtection"])
    }
    let path = try path(of: url)
    let protectionClass = try protection.fileProtectionType.protectionClass
    try translating(.writing, path, asking: protectionClass) { () throws(Errno) in
      let item = try Descriptor.open(PathName(path), [.path, .noFollow])
      guard try hasClass(item) else { throw .notSupported }
      try protectionClass.assign(toItemAt: PathName(descriptor: item).description)
    }
  }
}
