import Cryptography
import ProtectfsIO
import StoreFormat

/// The cipher of a file's contents: one key or, while a rekey is pending, the new key for data units below the boundary
/// and the old one for the others.
package struct ContentsCipher: Sendable {
  private let new: XTSCipher
  private let old: XTSCipher?
  /// The number of the first data unit under the old key.
  private let boundary: UInt64

  /// The cipher with a file's key.
  package init(_ key: borrowing FileKey) throws(CryptographyError) {
    self.init(try key.contentsCipher(), nil, 0)
  }

  /// The cipher of a file whose record wraps `key`.
  ///
  /// - Throws: `wrongKey` if the old key of a pending rekey is not wrapped under this key.
  package init(_ key: borrowing FileKey, _ record: FileRecord) throws(CryptographyError) {
    guard let pending = record.pending else {
      try self.init(key)
      return
    }
    self.init(
      try key.contentsCipher(), try key.unwrap(old: pending.wrappedOldKey).contentsCipher(), pending.boundary)
  }

  private init(_ new: XTSCipher, _ old: XTSCipher?, _ boundary: UInt64) {
    self.new = new
    self.old = old
    self.boundary = boundary
  }

  /// The cipher after the rekey has advanced to a boundary; with the new key alone (`nil`) after it has finished.
  func moved(to boundary: UInt64?) -> ContentsCipher {
    boundary.map { ContentsCipher(new, old, $0) } ?? ContentsCipher(new, nil, 0)
  }

  /// Wipes the keys in all copies of this cipher, including those from ``moved(to:)``.
  func wipe() {
    new.wipe()
    old?.wipe()
  }

  /// Encrypts data units in place; the first is number `firstUnit`.
  func encrypt(_ buffer: UnsafeMutableRawBufferPointer, firstUnit: UInt64) throws(CryptographyError) {
    guard let old else { return try unsafe new.encrypt(buffer, firstUnit: firstUnit) }
    let (below, above) = unsafe parts(buffer, firstUnit)
    if unsafe !below.isEmpty { try unsafe new.encrypt(below, firstUnit: firstUnit) }
    if unsafe !above.isEmpty { try unsafe old.encrypt(above, firstUnit: max(firstUnit, boundary)) }
  }

  /// Decrypts data units in place; the first is number `firstUnit`.
  func decrypt(_ buffer: UnsafeMutableRawBufferPointer, firstUnit: UInt64) throws(CryptographyError) {
    guard let old else { return try unsafe new.decrypt(buffer, firstUnit: firstUnit) }
    let (below, above) = unsafe parts(buffer, firstUnit)
    if unsafe !below.isEmpty { try unsafe new.decrypt(below, firstUnit: firstUnit) }
    if unsafe !above.isEmpty { try unsafe old.decrypt(above, firstUnit: max(firstUnit, boundary)) }
  }

  /// Re-encrypts data units in place, from the old key to the new one.
  func rekey(_ buffer: UnsafeMutableRawBufferPointer, firstUnit: UInt64) throws(CryptographyError) {
    guard let old else { return }
    try unsafe old.decrypt(buffer, firstUnit: firstUnit)
    do throws(CryptographyError) {
      try unsafe new.encrypt(buffer, firstUnit: firstUnit)
    } catch {
      // The keys may have been wiped in between.
      unsafe Memory.wipe(buffer)
      throw error
    }
  }

  private func parts(
    _ buffer: UnsafeMutableRawBufferPointer, _ firstUnit: UInt64
  ) -> (below: UnsafeMutableRawBufferPointer, above: UnsafeMutableRawBufferPointer) {
    let units = boundary > firstUnit ? boundary - firstUnit : 0
    let count = units > UInt64(buffer.count) / DataUnits.size ? buffer.count : Int(units * DataUnits.size)
    return unsafe (.init(rebasing: buffer[..<count]), .init(rebasing: buffer[count...]))
  }
}
