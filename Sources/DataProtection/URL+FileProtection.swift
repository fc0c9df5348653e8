import Foundation
import ProtectfsClient
import ProtectfsPolicy
import SystemPackage

/// The class of a file as a URL resource value.
///
/// The raw values are those of Apple's `NSURLFileProtectionType`.
public struct URLFileProtection: RawRepresentable, Hashable, Sendable {
  /// One of Apple's constants.
  public let rawValue: String

  /// The value with a raw value.
  public init(rawValue: String) {
    self.rawValue = rawValue
  }

  /// ``ProtectionClass/complete``
  public static let complete = URLFileProtection(rawValue: "NSURLFileProtectionComplete")
  /// ``ProtectionClass/completeUnlessOpen``
  public static let completeUnlessOpen = URLFileProtection(rawValue: "NSURLFileProtectionCompleteUnlessOpen")
  /// ``ProtectionClass/completeUntilFirstUserAuthentication``
  public static let completeUntilFirstUserAuthentication = URLFileProtection(
    rawValue: "NSURLFileProtectionCompleteUntilFirstUserAuthentication")
  /// ``ProtectionClass/completeWhenUserInactive``
  public static let completeWhenUserInactive = URLFileProtection(
    rawValue: "NSURLFileProtectionCompleteWhenUserInactive")
  /// ``ProtectionClass/none``
  public static let none = URLFileProtection(rawValue: "NSURLFileProtectionNone")

  /// The value for a class.
  public init(_ protectionClass: ProtectionClass) {
    // The two sets of constants of Apple have different prefixes.
    self.init(rawValue: "NSURL" + protectionClass.foundationName.dropFirst("NS".count))
  }

  /// Foundation's constant for the same class.
  public var fileProtectionType: FileProtectionType {
    FileProtectionType(rawValue: "NS" + rawValue.dropFirst("NSURL".count))
  }
}

/// The key `URLResourceKey.fileProtectionKey` of Apple's systems, which Foundation on Linux lacks. It cannot be
/// combined with other keys in one call.
public struct URLFileProtectionKey: Hashable, Sendable {
  /// The class of a file or directory: ``URLFileProtection``.
  public static let fileProtectionKey = URLFileProtectionKey()
}

/// The result of ``FoundationEssentials/URL/resourceValues(forKeys:)``.
public struct URLFileProtectionValues: Hashable, Sendable {
  /// The class; `nil` if the file is not on a protectfs mount.
  public let fileProtection: URLFileProtection?
}

extension URL {
  /// The class of the file, with the signature of Foundation's call.
  ///
  /// - Throws: Foundation's error if the file does not exist.
  public func resourceValues(forKeys keys: [URLFileProtectionKey]) throws -> URLFileProtectionValues {
    let path = try FileManager.path(of: self)
    do throws(Errno) {
      return URLFileProtectionValues(fileProtection: URLFileProtection(try ProtectionClass(ofItemAt: path)))
    } catch {
      if error == .notSupported { return URLFileProtectionValues(fileProtection: nil) }
      throw CocoaError(error, .reading, path: path)
    }
  }
}

extension NSURL {
  /// Sets the class of the file, with the signature of Foundation's call.
  ///
  /// - Throws: as ``FoundationEssentials/FileManager/setProtection(_:ofItemAt:)``.
  public func setResourceValue(_ value: URLFileProtection, forKey key: URLFileProtectionKey) throws {
    try FileManager.default.setProtection(value.fileProtectionType, ofItemAt: self as URL)
  }
}
