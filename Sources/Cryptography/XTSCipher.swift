import CLibcrypto
import ProtectfsIO

/// AES-256-XTS over the data units of one file (IEEE 1619; NIST SP 800-38E). It keeps the contents confidential, but
/// does not authenticate them.
///
/// A data unit has 4096 bytes. Its tweak is its number in the file, as 128 bits, little-endian. Calls may come from any
/// thread, and allocate only if more of them run concurrently than ever before.
package final class XTSCipher: @unchecked Sendable {
  /// The length of a data unit, in bytes.
  package static let unitSize = 4096
  /// The length of an AES block in bytes. The last unit of a file may be shorter than others, but only by whole blocks.
  package static let blockSize = 16
  /// The length of the key, in bytes: one AES-256 key for the data, one for the tweak.
  package static let keySize = 64

  /// Taken when a context is created, and not for each call.
  private let key: RankedMutex<WipeableKey>
  private let encryption = ContextPool<CipherContext>()
  private let decryption = ContextPool<CipherContext>()

  /// A cipher with a key of ``keySize`` bytes.
  package init(key: consuming SecretBytes) throws(CryptographyError) {
    guard key.count == Self.keySize else { throw .invalidLength("an XTS key") }
    self.key = RankedMutex(.cipherKey, WipeableKey(key))
  }

  /// Wipes the key, even while others hold the cipher. A call in progress in another thread completes, and then wipes
  /// what it used. Every later call fails.
  package func wipe() {
    key.withLock { $0.wipe() }
    encryption.close()
    decryption.close()
  }

  /// Encrypts units in place; the first is number `firstUnit`.
  package func encrypt(_ buffer: UnsafeMutableRawBufferPointer, firstUnit: UInt64) throws(CryptographyError) {
    try unsafe encrypt(UnsafeRawBufferPointer(buffer), into: buffer, firstUnit: firstUnit)
  }

  /// Decrypts units in place; the first is number `firstUnit`.
  package func decrypt(_ buffer: UnsafeMutableRawBufferPointer, firstUnit: UInt64) throws(CryptographyError) {
    try unsafe decrypt(UnsafeRawBufferPointer(buffer), into: buffer, firstUnit: firstUnit)
  }

  /// Encrypts units into another buffer, which is at least as long and either the same or does not overlap.
  package func encrypt(
    _ source: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer, firstUnit: UInt64
  ) throws(CryptographyError) {
    try encryption.withContext(
      make: { () throws(CryptographyError) in try makeContext(encrypts: true) },
      { (context) throws(CryptographyError) in
        try unsafe transform(source, into: target, firstUnit: firstUnit, with: context)
      })
  }

  /// Decrypts units into another buffer, which is at least as long and either the same or does not overlap.
  package func decrypt(
    _ source: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer, firstUnit: UInt64
  ) throws(CryptographyError) {
    try decryption.withContext(
      make: { () throws(CryptographyError) in try makeContext(encrypts: false) },
      { (context) throws(CryptographyError) in
        try unsafe transform(source, into: target, firstUnit: firstUnit, with: context)
      })
  }

  private func makeContext(encrypts: Bool) throws(CryptographyError) -> CipherContext {
    try key.withLock { (key) throws(CryptographyError) in
      try unsafe key.withBytes { (key) throws(CryptographyError) in
        try unsafe CipherContext(.aes256XTS, key: key, encrypts: encrypts)
      }
    }
  }

  private func transform(
    _ source: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer, firstUnit: UInt64,
    with context: CipherContext
  ) throws(CryptographyError) {
    precondition(source.count % Self.blockSize == 0, "XTS is used over whole AES blocks only")
    precondition(target.count >= source.count, "the buffer for the result is too short")
    guard let input = source.baseAddress, let output = target.baseAddress else { return }
    var unit = firstUnit
    var offset = 0
    while offset < source.count {
      let length = min(Self.unitSize, source.count - offset)
      try start(unit: unit, with: context)
      var produced: CInt = 0
      let status = unsafe EVP_CipherUpdate(
        context.pointer, (output + offset).assumingMemoryBound(to: UInt8.self), &produced,
        (input + offset).assumingMemoryBound(to: UInt8.self), CInt(length))
      try check(status, "transform a data unit")
      offset += length
      unit &+= 1
    }
  }

  /// Sets the tweak. The key and the direction (−1: unchanged) stay.
  @inline(__always)
  private func start(unit: UInt64, with context: CipherContext) throws(CryptographyError) {
    let tweak = UInt128(unit).littleEndian
    let status = unsafe withUnsafeBytes(of: tweak) {
      unsafe EVP_CipherInit_ex(
        context.pointer, nil, nil, nil, $0.baseAddress!.assumingMemoryBound(to: UInt8.self), -1)
    }
    try check(status, "set a tweak")
  }
}
