import Foundation

extension FileManager {
  /// Prepares a folder for a database whose class is among the options of a persistent store coordinator, at
  /// ``NSPersistentStoreFileProtectionKey``: a `FileProtectionType` or its raw value. Without one, the database has the
  /// class of its folder. Other options are the database's own, and not looked at.
  ///
  /// ```swift
  /// try FileManager.default.prepareDatabase(
  ///   at: url, options: [NSPersistentStoreFileProtectionKey: FileProtectionType.complete])
  /// ```
  /// - Throws: as ``prepareDatabase(at:protection:)``, and `CocoaError.featureUnsupported` for another value.
  public func prepareDatabase(at url: URL, options: [AnyHashable: Any]?) throws {
    guard let value = options?[NSPersistentStoreFileProtectionKey] else { return }
    let attributes: [FileAttributeKey: Any] = [.protectionKey: value]
    guard let protection = try attributes.protection else { return }
    try prepareDatabase(at: url, protection: protection)
  }
}
