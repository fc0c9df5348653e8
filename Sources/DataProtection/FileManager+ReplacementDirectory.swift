import DataProtectionEssentials
import Foundation

// `url(for: .itemReplacementDirectory, …)`, for which Foundation on Linux names a directory beneath /tmp, whatever file
// it is for. FileManager+Attributes.swift explains why this is a property.
extension FileManager {
  /// `url(for:in:appropriateFor:create:)`, whose directory for replacements of an item on a mount is on that mount.
  public var url: DirectoryLocating { DirectoryLocating(fileManager: self) }

  /// The call `url(for:in:appropriateFor:create:)`.
  public struct DirectoryLocating {
    fileprivate let fileManager: FileManager

    /// The URL of a common directory. For `.itemReplacementDirectory` and an item on a mount, it is a new directory
    /// beside the item, for this user alone. What is created in it has the class of the item or, if there is none yet,
    /// of its directory. As elsewhere it is the caller's to remove.
    ///
    /// - Throws: `CocoaError.fileWriteNoPermission` (513) if nothing may be created beside the item, and Foundation's
    ///   errors.
    public func callAsFunction(
      for directory: FileManager.SearchPathDirectory, in domain: FileManager.SearchPathDomainMask,
      appropriateFor item: URL?, create shouldCreate: Bool
    ) throws -> URL {
      if directory == .itemReplacementDirectory, let item, item.isFileURL,
        let made = try ReplacementDirectory.make(for: FileManager.path(of: item))
      {
        return URL(fileURLWithPath: made, isDirectory: true)
      }
      let foundation: (FileManager.SearchPathDirectory, FileManager.SearchPathDomainMask, URL?, Bool) throws -> URL =
        fileManager.url
      return try foundation(directory, domain, item, shouldCreate)
    }
  }
}
