import DataProtectionEssentials
import Foundation

// `NSData.write(to:options:)` with a protection option, which Foundation ignores on Linux. FileManager+Attributes.swift
// explains why this is a property.
extension NSData {
  /// `write(to:options:)` and its like, which create the file in the class that the options specify.
  public var write: FileWriting { FileWriting(data: self) }

  /// The calls `write(to:options:)`, `write(toFile:options:)`, `write(to:atomically:)` and `write(toFile:atomically:)`.
  public struct FileWriting {
    fileprivate let data: NSData

    /// Writes the data to a file, as `Data.write(to:options:)` does.
    ///
    /// - Throws: as ``FoundationEssentials/Data/FileWriting/callAsFunction(to:options:)``.
    public func callAsFunction(to url: URL, options: NSData.WritingOptions = []) throws {
      if try ProtectedWrite.run(data as Data, to: url, options) { return }
      let foundation: (URL, NSData.WritingOptions) throws -> Void = data.write
      try foundation(url, options)
    }

    /// Writes the data to a file by its path.
    ///
    /// - Throws: as ``FoundationEssentials/Data/FileWriting/callAsFunction(to:options:)``.
    public func callAsFunction(toFile path: String, options: NSData.WritingOptions = []) throws {
      if try ProtectedWrite.run(data as Data, to: URL(fileURLWithPath: path), options) { return }
      let foundation: (String, NSData.WritingOptions) throws -> Void = data.write
      try foundation(path, options)
    }

    /// Writes the data to a file, and returns whether that succeeded. A file on a mount that is replaced passes on its
    /// encrypted fields and its explicit class.
    public func callAsFunction(to url: URL, atomically: Bool) -> Bool {
      (try? self(to: url, options: atomically ? .atomic : [])) != nil
    }

    /// Writes the data to a file by its path, and returns whether that succeeded.
    public func callAsFunction(toFile path: String, atomically: Bool) -> Bool {
      (try? self(toFile: path, options: atomically ? .atomic : [])) != nil
    }
  }
}
