import FoundationEssentials
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// The names of staging directories, in which files are written before they are moved to their places, and zones end.
package enum StagingName {
  private static let suffix = ".staging"

  /// A unique name.
  package static func make() -> String { ".\(UUID().uuidString)\(suffix)" }

  /// Whether a name has this form.
  package static func isOne(_ name: PathName) -> Bool {
    let text = name.description
    return text.hasPrefix(".") && text.hasSuffix(suffix)
      && UUID(uuidString: String(text.dropFirst().dropLast(suffix.count))) != nil
  }
}

extension FileManager {
  /// Removes what writes and copies have left in a directory when their programs were killed: new content that was
  /// never reported as written, and zones that were being deleted. Calls in progress are left alone.
  ///
  /// - Returns: the number of removed writes.
  /// - Throws: the error of reading the directory.
  @discardableResult
  public func removeUnfinishedWrites(in url: URL) throws -> Int {
    let path = try Self.path(of: url)
    return try translating(.writing, path) { () throws(Errno) in
      try UnfinishedWrites.remove(in: Descriptor.open(PathName(path), [.readOnly, .directory]), olderThan: 10)
    }
  }
}
