import DataProtection
import Foundation

// What code written from the article "How to Use iOS Data Protection" does. The import of DataProtection is all that was
// added.
enum HowToUseIOSDataProtection {
  static func create(_ path: String, _ data: Data) -> Bool {
    FileManager.default.createFile(
      atPath: path, contents: data, attributes: [FileAttributeKey.protectionKey: FileProtectionType.complete])
  }

  static func createDirectory(_ path: String) throws {
    try FileManager.default.createDirectory(
      atPath: path, withIntermediateDirectories: true,
      attributes: [FileAttributeKey.protectionKey: FileProtectionType.completeUnlessOpen])
  }

  static func change(_ path: String) throws {
    try FileManager.default.setAttributes([.protectionKey: FileProtectionType.complete], ofItemAtPath: path)
  }

  static func isComplete(_ path: String) throws -> Bool {
    let attributes = try FileManager.default.attributesOfItem(atPath: path)
    return attributes[.protectionKey] as? FileProtectionType == .complete
  }

  /// The loop that sets every item of a directory.
  static func changeAll(in directory: URL) throws {
    guard let urls = FileManager.default.enumerator(at: directory, includingPropertiesForKeys: nil) else { return }
    for urlAsAny in urls {
      try (urlAsAny as! NSURL).setResourceValue(URLFileProtection.complete, forKey: .fileProtectionKey)
    }
  }

  static func value(of url: NSURL) throws -> URLFileProtection? {
    var value: AnyObject?
    try url.getResourceValue(&value, forKey: .fileProtectionKey)
    return value as? URLFileProtection
  }

  /// What opens the store is the program's; the options are those of the coordinator.
  static func options() -> [String: Any] {
    [NSPersistentStoreFileProtectionKey: FileProtectionType.complete]
  }

  static func isLocked(_ url: URL) -> Bool {
    do {
      _ = try Data(contentsOf: url)
      return false
    } catch let error as NSError {
      return error.domain == NSCocoaErrorDomain && error.code == NSFileReadNoPermissionError
    }
  }

  static func cannotBeSaved(_ data: Data, to url: URL) -> Bool {
    do {
      try data.write(to: url, options: [.atomic, .completeFileProtection])
      return false
    } catch let error as NSError {
      return error.code == NSFileWriteNoPermissionError
    }
  }
}
