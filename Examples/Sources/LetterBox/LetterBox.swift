import DataProtection
import Foundation

/// A letter, as the app has it in memory.
public struct Letter: Sendable, Equatable {
  /// Who wrote it: a field.
  public var author: String
  /// When: a field.
  public var date: Date
  /// A picture in it: an asset.
  public var picture: Data?

  /// A letter.
  public init(author: String, date: Date, picture: Data? = nil) {
    self.author = author
    self.date = date
    self.picture = picture
  }
}

/// Letters in a zone of records, and a cache of them in memory, from which the zone is filled again when its keys are
/// gone: the flow of CloudKit's "Encrypting User Data".
public final class LetterBox {
  /// What has become of a letter.
  public enum Outcome: Equatable, Sendable {
    case saved
    /// The keys of the zone were gone. It was recreated, and that many letters of the cache saved again.
    case savedAgain(Int)
    /// Somebody has deleted the zone. Their decision is not undone without a question; see ``LetterBox/createZone()``.
    case zoneDeleted
  }

  private let zone: ProtectedZone
  private var cache: [String: Letter] = [:]

  /// - Parameter directory: a place on a protectfs mount, where the zone is or will be.
  public init(directory: URL) {
    zone = ProtectedZone(at: directory)
  }

  /// Creates the zone: at the first start, and when a person wants it back.
  public func createZone() throws {
    try zone.create(protection: .complete)
    try uploadCache()
  }

  /// Saves a letter.
  ///
  /// - Throws: `CocoaError.fileWriteNoPermission` while locked, and what else keeps a file from being written. The
  ///   letter stays in the cache.
  public func save(_ letter: Letter, as name: String) throws -> Outcome {
    cache[name] = letter
    do {
      try upload(letter, as: name)
      return .saved
    } catch let error as ProtectedRecordError where error.code == .zoneNotFound {
      guard error.userInfo[ProtectedRecordError.userDidResetEncryptedDataKey] != nil else { return .zoneDeleted }
      // What is revoked cannot be read again, by anybody. What is not in the cache has to come from a server.
      try zone.recreateAfterReset()
      try uploadCache()
      return .savedAgain(cache.count)
    }
  }

  /// Reads a letter from the zone. One that cannot be read as a whole leaves the cache as it was.
  public func letter(_ name: String) throws -> Letter {
    let record = try zone.record(named: name)
    guard let author = record.encryptedValues["author"] as? String, let date = record.encryptedValues["date"] as? Date
    else { throw CocoaError(.fileReadCorruptFile, userInfo: [NSURLErrorKey: try zone.directory(of: name)]) }
    let letter = Letter(author: author, date: date, picture: try pictureData(of: name))
    cache[name] = letter
    return letter
  }

  /// The names of all letters.
  public func names() throws -> [String] { try zone.recordNames() }

  private func uploadCache() throws {
    for (name, letter) in cache { try upload(letter, as: name) }
  }

  private func upload(_ letter: Letter, as name: String) throws {
    let record = ProtectedRecord(named: name)
    record.encryptedValues["author"] = letter.author
    record.encryptedValues["date"] = letter.date
    try zone.save(record)
    // An asset: a file beside the fields, of the same class.
    if let picture = letter.picture { try picture.write(to: self.picture(of: name), options: .atomic) }
  }

  /// `nil` if the letter has no picture, and not if it has one that cannot be read now.
  private func pictureData(of name: String) throws -> Data? {
    do {
      return try Data(contentsOf: picture(of: name))
    } catch let error as CocoaError where error.code == .fileReadNoSuchFile {
      return nil
    }
  }

  private func picture(of name: String) throws -> URL {
    try zone.directory(of: name).appendingPathComponent("picture.jpg")
  }
}
