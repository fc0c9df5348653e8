/// The encoding of a file's length in the length of the backing file alone, so that `stat` opens nothing.
///
/// XTS cannot encrypt a tail of less than 16 bytes. With L = 16·q + r, the backing file is 16·q bytes long if r = 0,
/// else 16·(q + 1) + r: the contents padded to whole blocks, then r bytes that contain no data and are holes.
package enum ContentLength {
  /// The maximum length of contents, in bytes, for which the backing file's length is still an `off_t`.
  package static let longest = UInt64(Int64.max) - 31

  /// The length of the backing file for contents of `length` bytes, at most ``longest``.
  package static func backing(for length: UInt64) -> UInt64 {
    length % 16 == 0 ? length : length + 16
  }

  /// The length of the contents of a backing file; `nil` for a length that no contents have.
  package static func plaintext(for backing: UInt64) -> UInt64? {
    if backing % 16 == 0 { return backing }
    return backing > 16 ? backing - 16 : nil
  }

  /// The length in bytes of the encrypted units at the start of a backing file: ``plaintext(for:)``, rounded up to
  /// whole blocks.
  package static func encrypted(for length: UInt64) -> UInt64 {
    (length + 15) / 16 * 16
  }
}
