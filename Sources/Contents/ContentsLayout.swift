import Cryptography
import ProtectfsIO
import StoreFormat
import SystemPackage

/// How a store has the contents of its files in their backing files. The length of the backing file alone encodes that
/// of the contents, so that `stat` opens nothing.
package enum ContentsLayout: Sendable {
  /// Data units, AES-256-XTS.
  case units
  /// Pages that are authenticated, AES-256-GCM; on this medium.
  case pages(BackingMedium)

  /// That of a store with this keybag, in an open directory.
  package init(of keybag: KeybagRecord, in backing: borrowing Descriptor) {
    self = keybag.authenticatesContents ? .pages(BackingMedium(of: backing)) : .units
  }

  /// Whether contents are authenticated, and the records of files say which are clean.
  package var isAuthenticated: Bool { if case .pages = self { true } else { false } }

  /// Whether a record must be flushed to be durable before what is changed after it.
  package var flushesMarks: Bool { if case .pages(let medium) = self { !medium.keepsOrder } else { false } }

  /// The length that the tag of a file's record covers; `nil` in a store that has no marks.
  ///
  /// - Parameter size: of the backing file, in bytes; asked for if the file is clean.
  package func markedLength<Failure>(
    of record: [UInt8], size: () throws(Failure) -> UInt64
  ) throws(Failure) -> UInt64? {
    guard isAuthenticated else { return nil }
    return FileRecord.isClean(record) ? length(ofBacking: try size()) ?? .max : 0
  }

  /// Returns the chunks that another mount is writing into a file. Called after the file was read.
  package typealias Overlay = () throws(Errno) -> [RekeyBatch.Chunk]

  /// The maximum length of contents, in bytes, for which the backing file's length is still an `off_t`.
  package var longest: UInt64 {
    switch self {
    case .units: DataUnits.longest
    case .pages: PageLayout.longest
    }
  }

  /// The length of the backing file for contents of `length` bytes, at most ``longest``.
  package func backingLength(for length: UInt64) -> UInt64 {
    switch self {
    case .units: DataUnits.backingLength(for: length)
    case .pages: PageLayout.backingLength(for: length)
    }
  }

  /// The length of the contents of a backing file of `length` bytes; `nil` for a length that no contents have.
  package func length(ofBacking length: UInt64) -> UInt64? {
    switch self {
    case .units: DataUnits.length(ofBacking: length)
    case .pages: PageLayout.length(ofBacking: length)
    }
  }

  /// Refuses a length for contents that is more than ``longest``.
  ///
  /// - Throws: `EFBIG`.
  package func requirePossible(_ length: UInt64) throws(Errno) {
    if length > longest { throw .fileTooLarge }
  }

  /// The contents of an open backing file that has `backingLength` bytes, and that these writers change.
  ///
  /// - Throws: `EIO` for a length that no contents have.
  package func contents(
    of descriptor: consuming Descriptor, backingLength: UInt64, writers: WriterState
  ) throws(Errno) -> any FileContents {
    guard let length = length(ofBacking: backingLength) else { throw .ioError }
    let backing = BackingFile(descriptor, length: length, layout: self, writers: writers)
    return switch self {
    case .units: UnitContents(backing)
    case .pages(let medium): PageContents(backing, medium)
    }
  }

  /// The cipher of a file whose record wraps `key`.
  ///
  /// - Throws: `wrongKey` if the old key of a pending rekey is not wrapped under this key.
  package func cipher(
    _ key: borrowing FileKey, _ record: FileRecord
  ) throws(CryptographyError) -> ContentsCipher {
    guard let pending = record.pending else { return ContentsCipher(try cipher(key)) }
    return ContentsCipher(
      try cipher(key), old: try cipher(key.unwrap(old: pending.wrappedOldKey)), boundary: pending.boundary)
  }

  private func cipher(_ key: borrowing FileKey) throws(CryptographyError) -> any UnitCipher {
    switch self {
    case .units: try key.contentsCipher()
    case .pages: try key.pageCipher()
    }
  }

  /// Writes the chunks of an interrupted rekey again, as far as the backing file, which may have been truncated since,
  /// still reaches.
  ///
  /// - Throws: the error of writing them.
  package func replay(_ chunks: [RekeyBatch.Chunk], in file: borrowing Descriptor) throws(Errno) {
    let size = try file.status().size
    // Behind the last page there is a hole.
    let end = isAuthenticated ? DataUnits.start(of: size) : size
    try file.keepingPrivileges { () throws(Errno) in
      for chunk in chunks where chunk.range.lowerBound < end {
        let start = chunk.range.lowerBound
        try file.write(Array(chunk.ciphertext.prefix(Int(end - start))), at: start)
      }
    }
  }
}
