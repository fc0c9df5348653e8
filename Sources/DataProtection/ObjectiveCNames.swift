// swift-format-ignore-file: AlwaysUseLowerCamelCase

import Foundation

// The names that Objective-C and the first versions of Swift have for the constants, as they are in code and articles
// of that time. Each is of the type that the calls of today take.

/// `FileAttributeKey.protectionKey`
public let NSFileProtectionKey = FileAttributeKey.protectionKey
/// ``ProtectionClass/none``
public let NSFileProtectionNone = FileProtectionType.none
/// ``ProtectionClass/complete``
public let NSFileProtectionComplete = FileProtectionType.complete
/// ``ProtectionClass/completeUnlessOpen``
public let NSFileProtectionCompleteUnlessOpen = FileProtectionType.completeUnlessOpen
/// ``ProtectionClass/completeUntilFirstUserAuthentication``
public let NSFileProtectionCompleteUntilFirstUserAuthentication =
  FileProtectionType.completeUntilFirstUserAuthentication
/// ``ProtectionClass/completeWhenUserInactive``
public let NSFileProtectionCompleteWhenUserInactive = FileProtectionType.completeWhenUserInactive

/// `NSData.WritingOptions`
public typealias NSDataWritingOptions = NSData.WritingOptions

/// `Data.WritingOptions.noFileProtection`
public let NSDataWritingFileProtectionNone = Data.WritingOptions.noFileProtection
/// `Data.WritingOptions.completeFileProtection`
public let NSDataWritingFileProtectionComplete = Data.WritingOptions.completeFileProtection
/// `Data.WritingOptions.completeFileProtectionUnlessOpen`
public let NSDataWritingFileProtectionCompleteUnlessOpen = Data.WritingOptions.completeFileProtectionUnlessOpen
/// `Data.WritingOptions.completeFileProtectionUntilFirstUserAuthentication`
public let NSDataWritingFileProtectionCompleteUntilFirstUserAuthentication =
  Data.WritingOptions.completeFileProtectionUntilFirstUserAuthentication
/// ``FoundationEssentials/Data/WritingOptions/completeFileProtectionWhenUserInactive``
public let NSDataWritingFileProtectionCompleteWhenUserInactive =
  Data.WritingOptions.completeFileProtectionWhenUserInactive
/// `Data.WritingOptions.fileProtectionMask`
public let NSDataWritingFileProtectionMask = Data.WritingOptions.fileProtectionMask
/// `Data.WritingOptions.atomic`
public let NSDataWritingAtomic = Data.WritingOptions.atomic
/// `Data.WritingOptions.withoutOverwriting`
public let NSDataWritingWithoutOverwriting = Data.WritingOptions.withoutOverwriting

/// ``Foundation/URLResourceKey/fileProtectionKey``
public let NSURLFileProtectionKey = URLResourceKey.fileProtectionKey
/// ``Foundation/URLResourceKey/volumeSupportsFileProtectionKey``
public let NSURLVolumeSupportsFileProtectionKey = URLResourceKey.volumeSupportsFileProtectionKey
/// ``URLFileProtection/none``
public let NSURLFileProtectionNone = URLFileProtection.none
/// ``URLFileProtection/complete``
public let NSURLFileProtectionComplete = URLFileProtection.complete
/// ``URLFileProtection/completeUnlessOpen``
public let NSURLFileProtectionCompleteUnlessOpen = URLFileProtection.completeUnlessOpen
/// ``URLFileProtection/completeUntilFirstUserAuthentication``
public let NSURLFileProtectionCompleteUntilFirstUserAuthentication =
  URLFileProtection.completeUntilFirstUserAuthentication
/// ``URLFileProtection/completeWhenUserInactive``
public let NSURLFileProtectionCompleteWhenUserInactive = URLFileProtection.completeWhenUserInactive

/// The class of a database among the options of
/// ``FoundationEssentials/FileManager/prepareDatabase(at:options:)``, as among those of Core Data's coordinator.
public let NSPersistentStoreFileProtectionKey = "NSPersistentStoreFileProtectionKey"

/// ``UIApplication/protectedDataWillBecomeUnavailableNotification``
public var UIApplicationProtectedDataWillBecomeUnavailable: Notification.Name {
  UIApplication.protectedDataWillBecomeUnavailableNotification
}
/// ``UIApplication/protectedDataDidBecomeAvailableNotification``
public var UIApplicationProtectedDataDidBecomeAvailable: Notification.Name {
  UIApplication.protectedDataDidBecomeAvailableNotification
}

extension Notification.Name {
  /// ``UIApplication/protectedDataWillBecomeUnavailableNotification``
  public static var UIApplicationProtectedDataWillBecomeUnavailable: Notification.Name {
    UIApplication.protectedDataWillBecomeUnavailableNotification
  }
  /// ``UIApplication/protectedDataDidBecomeAvailableNotification``
  public static var UIApplicationProtectedDataDidBecomeAvailable: Notification.Name {
    UIApplication.protectedDataDidBecomeAvailableNotification
  }
}

extension UIApplication {
  /// ``isProtectedDataAvailable``
  public var protectedDataAvailable: Bool { isProtectedDataAvailable }
}
