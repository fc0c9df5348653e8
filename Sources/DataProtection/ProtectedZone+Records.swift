import Foundation
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// The records of a zone.
extension ProtectedZone {
  /// The names of the records, sorted. Available in every state.
  ///
  /// - Throws: ``ProtectedRecordError`` of code ``ProtectedRecordError/Code/zoneNotFound``, and Foundation's errors.
  public func recordNames() throws -> [String] {
    try requireZone()
    return try FileManager.default.contentsOfDirectory(atPath: FileManager.path(of: url)).filter {
      guard Self.isRecordName($0) else { return false }
      let path = try path(ofFieldsOf: $0)
      return (try? Self.status(path)).flatMap { $0 }.map(Self.areFields) == true
    }.sorted()
  }

  /// Reads a record, as one call of ``save(_:)`` has left it.
  ///
  /// - Throws: ``ProtectedRecordError`` if the zone, its key or the record does not exist,
  ///   `CocoaError.fileReadNoPermission` (257) while the class is locked, and as ``directory(of:)``. If the key of this
  ///   record alone is gone, ``ProtectedDataError/Reason-swift.enum/keyRevoked`` is the reason of the error.
  public func record(named name: String) throws -> ProtectedRecord {
    _ = try directory(of: name)
    return try inZone {
      let path = try path(ofFieldsOf: name)
      let unknown = ProtectedRecordError(.unknownItem, URL(fileURLWithPath: path))
      guard try translating(.reading, path, { () throws(Errno) in try Self.status(path) }) != nil else { throw unknown }
      // Before the values: if another record gets the name meanwhile, this is not taken for its origin.
      let origin = try origin(path)
      let values = try translating(.reading, path) { () throws(Errno) in try Self.values(path) }
      guard let values else { throw unknown }
      return ProtectedRecord(named: name, values, origin)
    }
  }

  /// Saves the fields that have changed, all or none, and keeps others that the stored record has. A record that the
  /// zone does not have is created, with all its fields. If the zone has another record of the name, since this one was
  /// read from another zone or was deleted meanwhile, all fields are saved to that. Of two programs that save a field
  /// at the same time, the last one wins; each waits for the other.
  ///
  /// - Throws: ``ProtectedRecordError`` if the zone or its key does not exist, `CocoaError.fileWriteNoPermission` (513)
  ///   while the class is locked, `CocoaError.fileWriteOutOfSpace` for fields that do not fit,
  ///   `CocoaError.fileWriteInvalidFileName` (514) for a name or a key that is none,
  ///   `CocoaError.fileWriteFileExists` (516) if there is something else than fields with their name, and
  ///   `CocoaError.coderInvalidValue` (4866) for a value that cannot be stored.
  public func save(_ record: ProtectedRecord) throws {
    let directory = try directory(of: record.name, .fileWriteInvalidFileName)
    let origin = try inZone {
      // What cannot be stored is found before there is a directory.
      for key in try record.encryptedValues.changes(isNew: true).keys {
        _ = try EncryptedValues.name(of: key, .fileWriteInvalidFileName, path(ofFieldsOf: record.name))
      }
      while true {
        let isNew = try Self.makeDirectory(directory)
        do {
          return try Self.withLock(on: directory) { try save(record, in: directory) }
        } catch {
          // Another one's save may have failed, which had made the directory.
          if !isNew, try Self.isGone(directory) { continue }
          // Of a record that was not saved, nothing stays. Others may have saved theirs.
          if isNew, let zone = try? Descriptor.open(PathName(FileManager.path(of: url)), [.path, .directory]) {
            try? zone.removeDirectory(PathName(record.name))
          }
          throw error
        }
      }
    }
    record.saved(origin)
  }

  private static func isGone(_ directory: URL) throws -> Bool {
    let path = try PathName(FileManager.path(of: directory))
    do throws(Errno) {
      _ = try Descriptor.open(path, [.path, .noFollow])
      return false
    } catch {
      // It says nothing that there is no descriptor left.
      return error == .noSuchFileOrDirectory
    }
  }

  /// Returns whether it is a new one.
  private static func makeDirectory(_ directory: URL) throws -> Bool {
    do {
      try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
      return true
    } catch let error as CocoaError where error.code == .fileWriteFileExists {
      return false
    }
  }

  private func save(_ record: ProtectedRecord, in directory: URL) throws -> RecordOrigin {
    let path = try path(ofFieldsOf: record.name)
    let status = try translating(.writing, path) { () throws(Errno) in try Self.status(path) }
    if let status, !Self.areFields(status) {
      throw CocoaError(
        .fileWriteFileExists,
        userInfo: [
          NSFilePathErrorKey: path, NSURLErrorKey: URL(fileURLWithPath: path),
          NSDebugDescriptionErrorKey: "these are not the fields of a record",
        ])
    }
    let isNew = try status == nil || origin(path) != record.origin
    let changes = try record.encryptedValues.changes(isNew: isNew)
    let protectionClass = try FileManager.default.protection(ofItemAt: directory).protectionClass
    let file = try translating(.writing, path, asking: protectionClass) { () throws(Errno) in
      try StagedFile(for: path, in: protectionClass)
    }
    let staged = PathName(file.path)
    let names = try translating(.writing, path) { () throws(Errno) in try staged.attributeNames() }
    // Two spellings that Unicode takes for the same are one key.
    let stored = Set(names.filter(FieldName.isOne).map(FieldName.key))
    for (key, value) in changes {
      let spelling = stored.firstIndex(of: key).map { stored[$0] } ?? key
      try EncryptedValues.store(value, forKey: spelling, in: staged, path, asking: protectionClass)
    }
    do throws(Errno) {
      if status == nil { try RecordOrigin.renew(FileManager.parent(of: path)) }
      try file.commit()
    } catch {
      throw CocoaError(error, .writing, path: path, asking: protectionClass)
    }
    return try origin(path)
  }

  /// - Parameter path: that of the fields.
  private func origin(_ path: String) throws -> RecordOrigin {
    let zone = try FileManager.path(of: url)
    return try translating(.reading, path) { () throws(Errno) in
      try RecordOrigin(zone: zone, directory: FileManager.parent(of: path))
    }
  }

  private func path(ofFieldsOf name: String) throws -> String {
    try FileManager.path(of: directory(of: name).appendingPathComponent("fields", isDirectory: false))
  }

  /// Whether a file is one of fields. A link, or an asset of the same name, is not.
  private static func areFields(_ status: Status) -> Bool {
    status.type == .regular && status.size == 0
  }

  /// The status of what has the name of fields; `nil` if there is nothing.
  private static func status(_ path: String) throws(Errno) -> Status? {
    do throws(Errno) {
      return try Descriptor.open(PathName(path), [.path, .noFollow]).status()
    } catch {
      if error == .noSuchFileOrDirectory || error == .notDirectory { return nil }
      throw error
    }
  }

  /// The fields of a record; `nil` if there are none. One open file has them all, as they are replaced together.
  private static func values(_ path: String) throws(Errno) -> [String: EncryptedValue]? {
    guard let status = try status(path), areFields(status) else { return nil }
    let file = try Descriptor.open(PathName(path), [.readOnly, .noFollow, .nonBlocking])
    var values: [String: EncryptedValue] = [:]
    for name in try file.attributeNames() where FieldName.isOne(name) {
      values[FieldName.key(name)] = EncryptedValue(bytes: try file.attribute(name))
    }
    return values
  }

  /// Calls `body`. If it fails since the zone or its keys have gone meanwhile, that is the error.
  private func inZone<Result>(_ body: () throws -> Result) throws -> Result {
    try requireZone()
    do {
      return try body()
    } catch {
      try requireZone()
      throw error
    }
  }
}
