import CLibcrypto
import Glibc

/// The memory for secrets: locked against swapping, left out of core dumps, and between two guard pages.
///
/// It is libcrypto's secure heap (`CRYPTO_secure_malloc_init(3)`), so libcrypto's own X25519 private keys are on it
/// too. A child of fork(2) does not inherit memory locks: a daemon calls ``relock()`` in the child that continues.
package enum SecureHeap {
  /// Room for about 60,000 keys. A multiple of the page size and a power of two, as libcrypto requires.
  static let size = 4 << 20
  /// The smallest allocation: a key of 256 bits.
  static let smallestPiece = 32

  /// Creates the heap, once; the first secret does so too. `nil`, or a sentence that says why secrets may be written to
  /// the swap.
  package static let warning: String? = prepare()

  /// Locks the heap again in a process created by fork(2). Returns whether it is locked now.
  package static func relock() -> Bool {
    guard warning == nil, let probe = unsafe CRYPTO_secure_malloc(smallestPiece, nil, 0) else { return false }
    defer { unsafe CRYPTO_secure_free(probe, nil, 0) }
    // libcrypto does not say where the heap is, only whether an address is in it.
    let page = Int(sysconf(CInt(_SC_PAGESIZE)))
    var start = unsafe probe - Int(bitPattern: probe) % page
    while unsafe CRYPTO_secure_allocated(start - page) == 1 { unsafe start -= page }
    return unsafe mlock(start, size) == 0
  }

  private static func prepare() -> String? {
    guard CRYPTO_secure_malloc_initialized() == 0 else { return nil }
    switch CRYPTO_secure_malloc_init(size, smallestPiece) {
    case 1: return nil
    case 0: return "no memory could be set aside for keys; they may be written to the swap"
    default: return "memory for keys cannot be locked (see ulimit -l, \(size >> 20) MiB); it may be written to the swap"
    }
  }
}
