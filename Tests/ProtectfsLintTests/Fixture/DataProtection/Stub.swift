// swift-format-ignore-file

import Foundation

// What the lint knows the library by: a module of its name, with properties in the place of Foundation's methods.

extension Data {
  public var write: FileWriting { FileWriting() }

  public struct FileWriting {
    public func callAsFunction(to url: URL, options: WritingOptions = []) throws {}
  }
}

extension FileManager {
  public var setAttributes: AttributeSetting { AttributeSetting() }

  public struct AttributeSetting {
    public func callAsFunction(_ attributes: [FileAttributeKey: Any], ofItemAtPath path: String) throws {}
  }
}

extension FileManager {
  public func setProtection(_ protection: FileProtectionType, ofItemAt url: URL) throws {}
}

public let NSFileProtectionKey = FileAttributeKey.protectionKey
public let NSFileProtectionComplete = FileProtectionType.complete

public struct URLFileProtection: Sendable {
  public static let complete = URLFileProtection()
}

extension URLResourceKey {
  public static let fileProtectionKey = URLResourceKey(rawValue: "NSURLFileProtectionKey")
}

extension URL {
  public var resourceValues: ResourceReading { ResourceReading() }

  public struct ResourceReading {
    public func callAsFunction(forKeys keys: Set<URLResourceKey>) throws -> URLResourceValues { URLResourceValues() }
  }
}

extension NSURL {
  public var setResourceValue: ResourceSetting { ResourceSetting() }

  public struct ResourceSetting {
    public func callAsFunction(_ value: Any?, forKey key: URLResourceKey) throws {}
  }
}

extension FileManager {
  public var url: DirectoryLocating { DirectoryLocating() }

  public struct DirectoryLocating {
    public func callAsFunction(
      for directory: SearchPathDirectory, in domain: SearchPathDomainMask, appropriateFor item: URL?, create: Bool
    ) throws -> URL { URL(fileURLWithPath: "/") }
  }
}

public enum UIApplication {
  public static let protectedDataDidBecomeAvailableNotification = Notification.Name("Available")
}

extension NotificationCenter {
  public var addObserver: ObserverAddition { ObserverAddition() }
}

public struct ObserverAddition {
  public func callAsFunction(
    forName name: Notification.Name?, object: Any?, queue: OperationQueue?,
    using block: @escaping @Sendable (Notification) -> Void
  ) -> any NSObjectProtocol { NSObject() }
}
