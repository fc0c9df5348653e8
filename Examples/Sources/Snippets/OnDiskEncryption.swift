import DataProtection
import Foundation

// What code written from Apple's "Protecting Data Using On-Disk Encryption" does, in the Swift of its time. The import
// of DataProtection is all that was added.
enum OnDiskEncryption {
  static func write(_ data: NSData, _ path: String) throws {
    try data.write(toFile: path, options: NSDataWritingFileProtectionComplete)
  }

  static func change(_ path: String) throws {
    let attributes = [NSFileProtectionKey: NSFileProtectionComplete]
    try FileManager.default.setAttributes(attributes, ofItemAtPath: path)
  }

  static let constants = [
    NSFileProtectionNone, NSFileProtectionComplete, NSFileProtectionCompleteUnlessOpen,
    NSFileProtectionCompleteUntilFirstUserAuthentication,
  ]

  static let options: Data.WritingOptions = [
    NSDataWritingAtomic, NSDataWritingFileProtectionCompleteUntilFirstUserAuthentication,
  ]

  static func observe(_ center: NotificationCenter, _ action: @escaping @Sendable (Notification) -> Void) -> [Any] {
    [
      center.addObserver(
        forName: .UIApplicationProtectedDataWillBecomeUnavailable, object: nil, queue: nil, using: action),
      center.addObserver(
        forName: NSNotification.Name.UIApplicationProtectedDataDidBecomeAvailable, object: nil, queue: nil,
        using: action),
    ]
  }

  static var isAvailable: Bool { UIApplication.shared.isProtectedDataAvailable }
}
