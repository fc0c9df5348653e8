import DataProtection
import Foundation

// What code written from Apple's "Encrypting Your App's Files" does. The import of DataProtection is all that was added.
enum EncryptingYourAppsFiles {
  static func write(_ data: Data, to fileURL: URL) throws {
    try data.write(to: fileURL, options: .completeFileProtection)
  }

  static func write(_ data: Data, to fileURL: URL, options: Data.WritingOptions) throws {
    try data.write(to: fileURL, options: options)
  }

  /// All options of the article.
  static let options: [Data.WritingOptions] = [
    .noFileProtection, .completeFileProtection, .completeFileProtectionUnlessOpen,
    .completeFileProtectionUntilFirstUserAuthentication,
  ]

  static func change(_ fileURL: URL) throws {
    try (fileURL as NSURL).setResourceValue(URLFileProtection.complete, forKey: .fileProtectionKey)
  }

  static func protection(of fileURL: URL) throws -> URLFileProtection? {
    let values = try fileURL.resourceValues(forKeys: [.fileProtectionKey, .isRegularFileKey])
    guard values.isRegularFile == true else { return nil }
    return values.fileProtection
  }

  static func supportsProtection(_ url: URL) throws -> Bool {
    let values = try url.resourceValues(forKeys: [.volumeSupportsFileProtectionKey])
    return values.volumeSupportsFileProtection ?? false
  }

  static func unprotectedFiles(in directory: URL) throws -> [String] {
    let keys: [URLResourceKey] = [.fileProtectionKey, .isDirectoryKey, .nameKey]
    guard let enumerator = FileManager.default.enumerator(at: directory, includingPropertiesForKeys: keys) else {
      return []
    }
    var names: [String] = []
    for case let fileURL as URL in enumerator {
      let values = try fileURL.resourceValues(forKeys: Set(keys))
      if values.isDirectory == true { continue }
      if values.fileProtection != .complete { names.append(fileURL.lastPathComponent) }
    }
    return names.sorted()
  }
}

/// The delegate, which is told of the device's locks.
final class DiaryDelegate: UIResponder, UIApplicationDelegate {
  var diary: Data?
  var url = URL(filePath: "diary.txt")

  func application(
    _ application: UIApplication, didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
  ) -> Bool {
    diary = try? Data(contentsOf: url)
    return true
  }

  func applicationProtectedDataWillBecomeUnavailable(_ application: UIApplication) {
    diary = nil
  }

  func applicationProtectedDataDidBecomeAvailable(_ application: UIApplication) {
    diary = try? Data(contentsOf: url)
  }
}
