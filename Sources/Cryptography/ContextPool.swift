import CLibcrypto
import ProtectfsIO

/// Keyed contexts that are not in use, so that requests on several threads neither wait for one another nor create
/// contexts.
///
/// The pool contains at most as many contexts as there were concurrent calls. They are freed, and thereby wiped, with
/// the pool.
struct ContextPool<Context: AnyObject & Sendable>: ~Copyable, Sendable {
  /// `nil` if the pool is closed and keeps no returned context.
  private let free = RankedMutex<[Context]?>(.cipherContexts, [])

  /// Calls `body` with a context that no other thread uses. `make` creates one if none is free.
  ///
  /// A context in which a call failed is in an unknown state, so if `body` throws, the context is freed instead of
  /// kept.
  @inline(__always)
  borrowing func withContext<Result>(
    make: () throws(CryptographyError) -> Context,
    _ body: (Context) throws(CryptographyError) -> Result
  ) throws(CryptographyError) -> Result {
    let context: Context
    if let idle = free.withLock({ $0?.popLast() }) { context = idle } else { context = try make() }
    let result = try body(context)
    free.withLock { $0?.append(context) }
    return result
  }

  /// Frees all contexts; those in use are freed when their calls end.
  func close() {
    free.withLock { $0 = nil }
  }
}

/// A cipher context of libcrypto, freed and wiped with this object.
@safe final class CipherContext: @unchecked Sendable {
  let pointer: OpaquePointer

  /// A context for encryption or decryption with a key. The initialisation vector is set later, once for each message.
  init(
    _ algorithm: Algorithm, key: UnsafeRawBufferPointer, encrypts: Bool
  ) throws(CryptographyError) {
    unsafe pointer = try check(EVP_CIPHER_CTX_new(), "make a cipher context")
    let key = unsafe key.bindMemory(to: UInt8.self).baseAddress
    try check(
      unsafe EVP_CipherInit_ex(pointer, algorithm.method, nil, key, nil, encrypts ? 1 : 0), "set a key")
  }

  deinit {
    unsafe EVP_CIPHER_CTX_free(pointer)
  }
}

/// A MAC context of libcrypto, freed and wiped with this object.
@safe final class MACContext: @unchecked Sendable {
  let pointer: OpaquePointer

  /// A context with a key, and with the parameter that selects the MAC's digest or cipher.
  init(
    _ algorithm: Algorithm, key: UnsafeRawBufferPointer, _ parameter: StaticString, _ value: StaticString
  ) throws(CryptographyError) {
    unsafe pointer = try check(EVP_MAC_CTX_new(algorithm.method), "make a MAC context")
    var parameters = ParameterList()
    parameters.add(parameter, text: value)
    let bytes = unsafe key.bindMemory(to: UInt8.self).baseAddress
    let status = unsafe parameters.withPointer { unsafe EVP_MAC_init(pointer, bytes, key.count, $0) }
    try check(status, "set a MAC key")
    // Early versions of libcrypto 3.0 did not restart a MAC without its key. A wrong MAC would produce wrong names and
    // tags, which would be noticed too late, so the same message is authenticated twice.
    let first = try authenticateNothing()
    try restart()
    guard try authenticateNothing() == first else {
      throw .library(operation: "restart a MAC", reason: "this version of libcrypto is too old")
    }
  }

  /// The MAC of the empty message, for which a context must be in the state after a restart.
  private func authenticateNothing() throws(CryptographyError) -> [UInt8] {
    var mac = unsafe [UInt8](repeating: 0, count: EVP_MAC_CTX_get_mac_size(pointer))
    try unsafe mac.withMutableBytes { (mac) throws(CryptographyError) in try unsafe finish(into: mac) }
    return mac
  }

  deinit {
    unsafe EVP_MAC_CTX_free(pointer)
  }

  /// Starts a new message under the same key.
  @inline(__always)
  func restart() throws(CryptographyError) {
    try check(unsafe EVP_MAC_init(pointer, nil, 0, nil), "restart a MAC")
  }

  /// Starts a new message under another key.
  func restart(key: UnsafeRawBufferPointer) throws(CryptographyError) {
    let bytes = unsafe key.bindMemory(to: UInt8.self).baseAddress
    try check(unsafe EVP_MAC_init(pointer, bytes, key.count, nil), "set a MAC key")
  }

  @inline(__always)
  func update(_ bytes: UnsafeRawBufferPointer) throws(CryptographyError) {
    guard let start = bytes.baseAddress else { return }
    try check(
      unsafe EVP_MAC_update(pointer, start.assumingMemoryBound(to: UInt8.self), bytes.count), "compute a MAC")
  }

  /// Writes the MAC of the message into `output`, which must have its full length.
  @inline(__always)
  func finish(into output: UnsafeMutableRawBufferPointer) throws(CryptographyError) {
    var length = 0
    let start = unsafe output.baseAddress?.assumingMemoryBound(to: UInt8.self)
    try check(unsafe EVP_MAC_final(pointer, start, &length, output.count), "finish a MAC")
    guard length == output.count else { throw .invalidLength("a MAC") }
  }
}

// HMAC-SHA256 contexts that have a key only while they are in use.
extension MACContext {
  private static let noKey = [UInt8](repeating: 0, count: 32)

  /// A context whose key is zeros.
  static func keyless() throws(CryptographyError) -> MACContext {
    try unsafe noKey.withBytes { (key) throws(CryptographyError) in
      try unsafe MACContext(.hmac, key: key, "digest", "SHA256")
    }
  }

  /// Replaces the key, and all that was computed with it, by zeros and what is computed with those.
  func forgetKey() throws(CryptographyError) {
    try unsafe Self.noKey.withBytes { (key) throws(CryptographyError) in try unsafe restart(key: key) }
  }
}
