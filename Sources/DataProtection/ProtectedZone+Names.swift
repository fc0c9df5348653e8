import DataProtectionEssentials
import Foundation
import ProtectfsIO

// The names of records, which are those of directories in the zone.
extension ProtectedZone {
  /// The file that makes a directory a zone.
  static let markerName = ".zone"

  /// The directory of a record, for its assets: files of any name but `fields`. What is written there has the class of
  /// the zone. Who removes it, removes the record.
  ///
  /// - Throws: `CocoaError.fileReadInvalidFileName` (258) for a name that no record can have: one that is empty, has
  ///   more than 255 bytes, a slash or a NUL, is `.`, `..` or `.zone`, or has the form `.UUID.staging` of what the
  ///   library is writing.
  public func directory(of name: String) throws -> URL {
    try directory(of: name, .fileReadInvalidFileName)
  }

  /// - Parameter code: that of the error for a name that no record can have.
  func directory(of name: String, _ code: CocoaError.Code) throws -> URL {
    guard Self.isRecordName(name) else {
      throw CocoaError(
        code,
        userInfo: [
          NSURLErrorKey: url, NSLocalizedDescriptionKey: "no record can have the name \(name.debugDescription)",
        ])
    }
    return url.appendingPathComponent(name, isDirectory: true)
  }

  static func isRecordName(_ name: String) -> Bool {
    let path = PathName(name)
    return path.isEntryName && path.bytes.count <= 255 && name != markerName && !StagingName.isOne(path)
  }
}
