import Foundation
import ProtectfsClient
import ProtectfsPolicy

// `Data.write(to:options:)` with a protection option, which Foundation drops on Linux; a property for the reason that
// FileManager+Attributes.swift tells.
extension Data {
  /// `write(to:options:)`, which creates the file in the class that the options ask for.
  public var write: FileWriting { FileWriting(data: self) }

  /// The call `write(to:options:)`.
  public struct FileWriting {
    fileprivate let data: Data

    /// Writes the data to a file. With a protection option:
    ///
    /// - A new file, and one that is replaced (`.atomic`), is in its class before its first byte is written; a crash
    ///   leaves the old file or the new one.
    /// - A file that is there is put into the class, and then written over.
    /// - A file of class ``ProtectionClass/completeUnlessOpen`` is created while locked too, whatever the class of its
    ///   directory is.
    ///
    /// - Throws: `CocoaError.fileWriteNoPermission` (513) where the class is locked, `CocoaError.featureUnsupported` where
    ///   a class was asked for and the path is on no protectfs mount, and Foundation's errors. Nothing has changed then.
    public func callAsFunction(to url: URL, options: WritingOptions = []) throws {
      guard let protectionClass = try options.protectionClass else {
        let foundation: (URL, WritingOptions) throws -> Void = data.write
        return try foundation(url, options)
      }
      let others = options.subtracting(.fileProtectionMask)
      try ProtectedWrite(data, to: FileManager.path(of: url), in: protectionClass, others).run()
    }
  }
}
