import Cryptography
import ProtectfsIO
import StoreFormat
import SystemPackage

/// A cipher of units of 4096 bytes, by their numbers in a file.
protocol UnitCipher: AnyObject, Sendable {
  /// Encrypts units in place; the first is number `firstUnit`.
  func encrypt(_ buffer: UnsafeMutableRawBufferPointer, firstUnit: UInt64) throws(CryptographyError)
  /// Decrypts units in place; the first is number `firstUnit`.
  func decrypt(_ buffer: UnsafeMutableRawBufferPointer, firstUnit: UInt64) throws(CryptographyError)
  /// Wipes the key.
  func wipe()
}

extension XTSCipher: UnitCipher {}

extension PageCipher: UnitCipher {
  func encrypt(_ buffer: UnsafeMutableRawBufferPointer, firstUnit: UInt64) throws(CryptographyError) {
    try unsafe encrypt(buffer, first: firstUnit, kind: PageLayout.kind)
  }

  func decrypt(_ buffer: UnsafeMutableRawBufferPointer, firstUnit: UInt64) throws(CryptographyError) {
    try unsafe decrypt(buffer, first: firstUnit, kind: PageLayout.kind)
  }
}

/// The cipher of a file's contents: one key or, while a rekey is pending, the new key for units below the boundary and
/// the old one for the others.
package struct ContentsCipher: Sendable {
  private let new: any UnitCipher
  private let old: (any UnitCipher)?
  /// The number of the first unit under the old key.
  private let boundary: UInt64

  init(_ new: any UnitCipher, old: (any UnitCipher)? = nil, boundary: UInt64 = 0) {
    self.new = new
    self.old = old
    self.boundary = boundary
  }

  /// The cipher after the rekey has advanced to a boundary; with the new key alone (`nil`) after it has finished.
  package func moved(to boundary: UInt64?) -> ContentsCipher {
    boundary.map { ContentsCipher(new, old: old, boundary: $0) } ?? ContentsCipher(new)
  }

  /// Wipes the keys in all copies of this cipher, including those from ``moved(to:)``.
  package func wipe() {
    new.wipe()
    old?.wipe()
  }

  /// Encrypts units in place; the first is number `firstUnit`.
  ///
  /// - Throws: `EIO` if the keys were wiped, as do the other functions.
  func encrypt(_ bytes: UnsafeMutableRawBufferPointer, firstUnit: UInt64) throws(Errno) {
    try unsafe forEachKey(of: bytes, firstUnit) { (key, part, unit) throws(CryptographyError) in
      try unsafe key.encrypt(part, firstUnit: unit)
    }
  }

  /// Decrypts units in place, and leaves parts that were never written as zeros; the first is number `firstUnit`.
  /// Runs of whole units are decrypted in one call.
  ///
  /// - Throws: ``Errno/notAuthentic``.
  func decrypt(_ bytes: UnsafeMutableRawBufferPointer, firstUnit: UInt64) throws(Errno) {
    let size = Int(DataUnits.size)
    var runStart = 0
    var position = 0
    while position < bytes.count {
      let end = min(position + size, bytes.count)
      let written = unsafe DataUnits.writtenCount(UnsafeRawBufferPointer(rebasing: bytes[position..<end]))
      if written < end - position {
        try unsafe decryptRun(bytes, runStart..<position + written, firstUnit)
        runStart = end
      }
      position = end
    }
    try unsafe decryptRun(bytes, runStart..<bytes.count, firstUnit)
  }

  @inline(__always)
  private func decryptRun(
    _ bytes: UnsafeMutableRawBufferPointer, _ run: Range<Int>, _ firstUnit: UInt64
  ) throws(Errno) {
    let unit = firstUnit + DataUnits.unit(of: UInt64(run.lowerBound))
    try unsafe forEachKey(of: .init(rebasing: bytes[run]), unit) { (key, part, unit) throws(CryptographyError) in
      try unsafe key.decrypt(part, firstUnit: unit)
    }
  }

  /// Re-encrypts units in place, from the old key to the new one. Returns false where one of them is not authentic;
  /// they are then wiped.
  func rekey(_ bytes: UnsafeMutableRawBufferPointer, firstUnit: UInt64) throws(Errno) -> Bool {
    guard let old else { return true }
    do throws(CryptographyError) {
      try unsafe old.decrypt(bytes, firstUnit: firstUnit)
    } catch {
      if error == .notAuthentic { return false }
      throw .ioError
    }
    do throws(CryptographyError) {
      try unsafe new.encrypt(bytes, firstUnit: firstUnit)
    } catch {
      // The keys may have been wiped in between.
      unsafe Memory.wipe(bytes)
      throw .ioError
    }
    return true
  }

  /// Calls `body` with each key and its part of the units, if there is one.
  @inline(__always)
  private func forEachKey(
    of bytes: UnsafeMutableRawBufferPointer, _ firstUnit: UInt64,
    _ body: (any UnitCipher, UnsafeMutableRawBufferPointer, UInt64) throws(CryptographyError) -> Void
  ) throws(Errno) {
    guard bytes.count > 0 else { return }
    do throws(CryptographyError) {
      guard let old else { return try unsafe body(new, bytes, firstUnit) }
      let units = boundary > firstUnit ? boundary - firstUnit : 0
      let count = units > UInt64(bytes.count) / DataUnits.size ? bytes.count : Int(units * DataUnits.size)
      if count > 0 { try unsafe body(new, .init(rebasing: bytes[..<count]), firstUnit) }
      if count < bytes.count { try unsafe body(old, .init(rebasing: bytes[count...]), max(firstUnit, boundary)) }
    } catch {
      throw error == .notAuthentic ? .notAuthentic : .ioError
    }
  }
}
