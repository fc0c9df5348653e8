import Foundation
import ProtectfsIO
import SystemPackage

/// The stored record that a record in memory was read from or saved to.
///
/// The directory of a record has an identifier, as an extended attribute, that is made with its fields. So another
/// record that has got the name since is told from this one: neither inode numbers nor times do that.
struct RecordOrigin: Equatable {
  /// The inode of the zone's directory: a copy of a zone has the identifiers of the original.
  private let zone: UInt64
  /// `nil` if the record was made by other means than this module.
  private let identifier: [UInt8]?

  private static let attribute: PathName = "user.DataProtection.record"

  /// What is stored in a directory.
  init(zone: String, directory: String) throws(Errno) {
    self.zone = try Descriptor.open(PathName(zone), [.path, .directory]).status().inode
    do throws(Errno) {
      identifier = try PathName(directory).attribute(Self.attribute)
    } catch {
      guard error == .noData else { throw error }
      identifier = nil
    }
  }

  /// Gives a directory, which has no fields yet, an identifier that no other has.
  static func renew(_ directory: String) throws(Errno) {
    try PathName(directory).setAttribute(attribute, to: Array(UUID().uuidString.utf8))
  }
}
