import DataProtectionEssentials
import Foundation

// `NSString.write(to:atomically:encoding:)`; see String+Writing.swift.
extension NSString {
  /// `write(to:atomically:encoding:)`, with which a replaced file on a mount passes on its encrypted fields and its
  /// explicit class.
  public var write: FileWriting { FileWriting(text: self) }

  /// The calls `write(to:atomically:encoding:)` and `write(toFile:atomically:encoding:)`.
  public struct FileWriting {
    fileprivate let text: NSString

    /// Writes the text to a file, in the encoding with that raw value.
    ///
    /// - Throws: as ``FoundationEssentials/Data/FileWriting/callAsFunction(to:options:)``, and Foundation's errors.
    public func callAsFunction(to url: URL, atomically: Bool, encoding: UInt) throws {
      try FileManager.refuseNUL(in: url.path(percentEncoded: false))
      if atomically, let data = text.data(using: encoding), try ProtectedWrite.run(data, to: url, .atomic) { return }
      let foundation: (URL, Bool, UInt) throws -> Void = text.write
      try foundation(url, atomically, encoding)
    }

    /// Writes the text to a file by its path.
    ///
    /// - Throws: as ``callAsFunction(to:atomically:encoding:)``.
    public func callAsFunction(toFile path: String, atomically: Bool, encoding: UInt) throws {
      try self(to: URL(fileURLWithPath: path), atomically: atomically, encoding: encoding)
    }
  }
}
