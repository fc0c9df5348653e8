import DataProtectionEssentials
import Foundation

// Foundation 6.3 on Linux exchanges the two items of these calls, and then removes the new content.
// FileManager+Attributes.swift explains why these are properties.
extension FileManager {
  /// `replaceItemAt(_:withItemAt:backupItemName:options:)`, which replaces the item.
  public var replaceItemAt: ItemReplacing { ItemReplacing() }
  /// `replaceItem(at:withItemAt:backupItemName:options:)`, which replaces the item.
  public var replaceItem: ItemReplacing { ItemReplacing() }

  /// The calls `replaceItemAt(_:withItemAt:…)` and `replaceItem(at:withItemAt:…)`.
  public struct ItemReplacing: Sendable {
    /// Replaces an item by another, which takes its name. At each moment, also of a crash, the old or the new item has
    /// that name, never none and never a part.
    ///
    /// - The class of the old item is kept, also an inherited one, and applies to what is in a new directory too,
    ///   except where the new item has an explicit class. With `.usingNewMetadataOnly` only an explicit class of a
    ///   file is kept (`-o replace_class`).
    /// - Without `.usingNewMetadataOnly` the new item takes over the permissions of the old one, its owner if
    ///   permitted, and the encrypted fields that it does not have itself.
    /// - An item on another file system is copied, as `copyItem(at:to:)` does, and then removed.
    ///
    /// - Parameters:
    ///   - original: the item that is replaced. It must exist. If it is a symbolic link, the link is replaced.
    ///   - new: the item that replaces it.
    ///   - backupItemName: the name that the old item gets in its directory, in place of what has that name. Applies
    ///     only with `.withoutDeletingBackupItem`: no backup is needed meanwhile.
    ///   - options: Foundation's options.
    /// - Returns: the URL of the item, which is `original`.
    /// - Throws: `CocoaError.fileWriteNoPermission` (513) if a class is locked, `CocoaError.featureUnsupported` if the
    ///   item would become plaintext, and other errors of files. Both items are unchanged then, but for metadata that
    ///   the new one may have taken over.
    @discardableResult
    public func callAsFunction(
      _ original: URL, withItemAt new: URL, backupItemName: String? = nil, options: ItemReplacementOptions = []
    ) throws -> URL? {
      try ItemReplacement(
        of: FileManager.path(of: original), by: FileManager.path(of: new),
        backupName: options.contains(.withoutDeletingBackupItem) ? backupItemName : nil,
        takesOverMetadata: !options.contains(.usingNewMetadataOnly)
      ).run()
      return original
    }

    /// Replaces an item by another.
    @discardableResult
    public func callAsFunction(
      at original: URL, withItemAt new: URL, backupItemName: String?, options: ItemReplacementOptions = []
    ) throws -> URL? {
      try self(original, withItemAt: new, backupItemName: backupItemName, options: options)
    }
  }
}
