import FoundationEssentials

// `Data.write(to:options:)` with a protection option, which Foundation ignores on Linux. FileManager+Attributes.swift
// explains why this is a property.
extension Data {
  /// `write(to:options:)`, which creates the file in the class that the options specify.
  public var write: FileWriting { FileWriting(data: self) }

  /// The call `write(to:options:)`.
  public struct FileWriting {
    fileprivate let data: Data

    /// Writes the data to a file. With a protection option:
    ///
    /// - A new file, and one that is replaced (`.atomic`), is in its class before its first byte is written. A crash
    ///   leaves the old file or the new one.
    /// - An existing file is put into the class and then overwritten, as the same file: hard links and open files see
    ///   the new content. It is durable when the call returns. Its space is reserved first, so that a full store leaves
    ///   the old content; a crash or a lock meanwhile, or a backing file system that cannot reserve space, may leave a
    ///   mixture.
    ///   Only `.atomic` keeps the old content in every case.
    /// - A file of class ``ProtectionClass/completeUnlessOpen`` can be created even while locked, whatever the class of
    ///   its directory.
    ///
    /// Without one, a file on a mount that is replaced (`.atomic`) passes on its encrypted fields, its explicit class,
    /// its mode and its ACL. A symbolic link to a file on a mount is followed, with and without a class. Elsewhere
    /// Foundation replaces the link itself.
    ///
    /// - Throws: `CocoaError.fileWriteNoPermission` (513) if the class is locked, `CocoaError.featureUnsupported` if a
    ///   class was requested and the path is not on a protectfs mount, `CocoaError.fileWriteOutOfSpace` (640), and
    ///   Foundation's errors. Nothing has changed then, unless the disk fails or the class is locked while a file
    ///   is overwritten.
    public func callAsFunction(to url: URL, options: WritingOptions = []) throws {
      if try ProtectedWrite.run(data, to: url, options) { return }
      let foundation: (URL, WritingOptions) throws -> Void = data.write
      try foundation(url, options)
    }
  }
}
