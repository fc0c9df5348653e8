import Cryptography
import KeyManagement
import ProtectfsIO
import StoreFormat
import SystemPackage

// Directories: their records, which are needed for all names in them, and their extended attributes.
extension TreeCheck {
  /// Checks the root's record, which cannot be replaced: all names in the root depend on its ID.
  func checkRoot(_ root: borrowing Descriptor, at place: Place) throws(Errno) -> [UInt8]? {
    switch try readRecord(of: root, isEmpty: { false }) {
    case .good(let identifier):
      checkAttributes(of: root, .directory(identifier), at: place)
      return identifier
    case .wrong(.directoryRecordAltered, _):
      let detail = "or the keybag is another store's; nothing is repaired"
      findings.report(.directoryRecordAltered, at: place, detail)
      return nil
    case .wrong(let defect, let detail):
      findings.report(defect, at: place, detail)
      return nil
    }
  }

  /// Checks a directory and returns it as the next one to visit. If its record is unusable, moves the directory with
  /// everything in it.
  func checkDirectory(_ path: borrowing Descriptor, _ entry: Entry) throws(Errno) -> Visit? {
    let directory = try path.readable(adding: 0o500) { (path) throws(Errno) in
      try Descriptor.open(path, [.readOnly, .directory])
    }
    let isSearchable = try isSearchable(directory)
    let record = try readRecord(of: path) { () throws(Errno) in
      try SharedDescriptor(
        directory.readable { (path) throws(Errno) in try Descriptor.open(path, [.readOnly, .directory]) }
      ).descriptor.nextNames().isEmpty
    }
    switch record {
    case .good(let identifier):
      checkAttributes(of: path, .directory(identifier), at: entry.place)
      return try Visit(directory, at: entry.place, identifier: identifier, isSearchable: isSearchable)
    case .wrong(let defect, let detail):
      switch defect {
      case .emptyDirectoryWithoutRecord, .recordVersionUnknown: findings.report(defect, at: entry.place, detail)
      default: findings.report(defect, at: entry.place, detail, mend: entry.move)
      }
      return nil
    }
  }

  /// Whether the directory may be searched. Reading its names is not enough, since each entry is examined.
  ///
  /// - Throws: `EACCES` for a directory that may not be searched, and whose mode this user may not change.
  private func isSearchable(_ directory: borrowing Descriptor) throws(Errno) -> Bool {
    do throws(Errno) {
      _ = try directory.status(of: ".")
      return true
    } catch .permissionDenied {
      _ = try directory.readable(adding: 0o100) { (_) throws(Errno) in try directory.status(of: ".") }
      return false
    }
  }

  private enum RecordState {
    case good(identifier: [UInt8])
    case wrong(Defect, detail: String)
  }

  private func readRecord(
    of directory: borrowing Descriptor, isEmpty: () throws(Errno) -> Bool
  ) throws(Errno) -> RecordState {
    let bytes: [UInt8]
    do throws(Errno) {
      bytes = try directory.readable { (path) throws(Errno) in
        try path.attribute(PathName(DirectoryRecord.attributeName))
      }
    } catch .noData {
      return .wrong(try isEmpty() ? .emptyDirectoryWithoutRecord : .directoryWithoutRecord, detail: "")
    }
    let record: DirectoryRecord
    do throws(FormatError) {
      record = try DirectoryRecord(parsing: bytes)
    } catch {
      return .wrong(error.isFromNewerVersion ? .recordVersionUnknown : .directoryRecordMalformed, detail: "\(error)")
    }
    guard (try? keys.volume.isAuthentic(record)) == true else { return .wrong(.directoryRecordAltered, detail: "") }
    return .good(identifier: record.directoryID)
  }
}

extension FormatError {
  /// Whether a newer program may be able to read this.
  var isFromNewerVersion: Bool {
    switch self {
    case .malformed: false
    case .unsupportedVersion, .unknownFeatures: true
    }
  }
}
