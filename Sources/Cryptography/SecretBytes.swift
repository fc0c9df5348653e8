import CLibcrypto
import Glibc
import ProtectfsIO

/// Bytes that must not be copied, swapped or left behind: keys, passcodes, and what keys are derived from.
///
/// They are on the ``SecureHeap`` while it has room, otherwise in ordinary memory, since a full heap must not make a
/// file unusable. In both places they are wiped when the value is destroyed.
@safe package struct SecretBytes: ~Copyable, @unchecked Sendable {
  private let storage: UnsafeMutableRawPointer
  private let isOnSecureHeap: Bool
  /// The number of bytes.
  package let count: Int

  /// `count` zero bytes.
  package init(count: Int) {
    _ = SecureHeap.warning
    let capacity = max(count, 1)
    if CRYPTO_secure_malloc_initialized() == 1, let secure = unsafe CRYPTO_secure_zalloc(capacity, nil, 0) {
      unsafe storage = secure
      isOnSecureHeap = true
    } else {
      // The failed allocation has queued an error, which must not be reported for the next failure.
      ERR_clear_error()
      unsafe storage = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 16)
      unsafe storage.initializeMemory(as: UInt8.self, repeating: 0, count: capacity)
      isOnSecureHeap = false
    }
    self.count = count
  }

  deinit {
    if isOnSecureHeap {
      unsafe CRYPTO_secure_clear_free(storage, max(count, 1), nil, 0)
    } else {
      unsafe OPENSSL_cleanse(storage, count)
      unsafe storage.deallocate()
    }
  }

  /// `count` bytes from libcrypto's generator for secrets (`RAND_priv_bytes(3)`).
  package init(randomCount count: Int) throws(CryptographyError) {
    self.init(count: count)
    #if DEBUG
      if let source = RandomSource.simulated {
        unsafe source.fill(UnsafeMutableRawBufferPointer(start: storage, count: count))
        return
      }
    #endif
    try check(
      unsafe RAND_priv_bytes(storage.assumingMemoryBound(to: UInt8.self), CInt(count)), "make random bytes")
  }

  /// A copy of bytes. If they are secret, the caller wipes them.
  package init(copying bytes: UnsafeRawBufferPointer) {
    self.init(count: bytes.count)
    if let source = bytes.baseAddress { unsafe storage.copyMemory(from: source, byteCount: bytes.count) }
  }

  /// A copy of bytes that are not secret, or not yet.
  package init(_ bytes: [UInt8]) {
    self = unsafe bytes.withBytes { unsafe SecretBytes(copying: $0) }
  }

  /// Two secrets concatenated, as input of a key derivation.
  package init(_ first: borrowing SecretBytes, followedBy second: borrowing SecretBytes) {
    self.init(count: first.count + second.count)
    unsafe storage.copyMemory(from: first.storage, byteCount: first.count)
    unsafe (storage + first.count).copyMemory(from: second.storage, byteCount: second.count)
  }

  /// A second value with the same bytes.
  package borrowing func copy() -> SecretBytes {
    unsafe SecretBytes(copying: UnsafeRawBufferPointer(start: storage, count: count))
  }

  /// The first `count` bytes, for a secret that was read into a larger buffer.
  package borrowing func prefix(_ count: Int) -> SecretBytes {
    unsafe SecretBytes(copying: UnsafeRawBufferPointer(start: storage, count: min(count, self.count)))
  }

  /// Calls `body` with the bytes, which it must not copy to memory that is not wiped.
  package borrowing func withBytes<Result: ~Copyable, Failure: Error>(
    _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try unsafe body(UnsafeRawBufferPointer(start: storage, count: count))
  }

  /// Calls `body` with the bytes, which it may change in place.
  package mutating func withMutableBytes<Result: ~Copyable, Failure: Error>(
    _ body: (UnsafeMutableRawBufferPointer) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try unsafe body(UnsafeMutableRawBufferPointer(start: storage, count: count))
  }

  /// Whether both contain the same bytes, in a time that depends only on their lengths.
  package static func == (first: borrowing SecretBytes, second: borrowing SecretBytes) -> Bool {
    unsafe first.count == second.count && CRYPTO_memcmp(first.storage, second.storage, first.count) == 0
  }
}

/// `count` random bytes that are not secret: identifiers and salts (`RAND_bytes(3)`).
package func randomBytes(_ count: Int) throws(CryptographyError) -> [UInt8] {
  var bytes = [UInt8](repeating: 0, count: count)
  #if DEBUG
    if let source = RandomSource.simulated {
      unsafe bytes.withUnsafeMutableBytes { unsafe source.fill($0) }
      return bytes
    }
  #endif
  let status = unsafe bytes.withUnsafeMutableBufferPointer { unsafe RAND_bytes($0.baseAddress, CInt($0.count)) }
  try check(status, "make random bytes")
  return bytes
}

/// Whether two byte strings are equal, in a time that depends only on their lengths (`CRYPTO_memcmp(3)`).
package func isEqualInConstantTime(_ first: [UInt8], _ second: [UInt8]) -> Bool {
  guard first.count == second.count else { return false }
  return unsafe first.withUnsafeBytes { first in
    unsafe second.withUnsafeBytes { second in
      unsafe first.count == 0 || CRYPTO_memcmp(first.baseAddress, second.baseAddress, first.count) == 0
    }
  }
}
