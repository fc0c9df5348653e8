import CLibcrypto

/// What can go wrong in this module.
package enum CryptographyError: Error, Equatable, Sendable, CustomStringConvertible {
  /// libcrypto refused: out of memory, no entropy, or an algorithm that its providers do not offer.
  case library(operation: String, reason: String)
  /// The key does not open what it was asked to open, or that was altered: the two cannot be told apart (RFC 3394).
  case wrongKey
  /// The bytes were not sealed under this key with this associated data (RFC 5297).
  case notAuthentic
  /// A key, or what is to be opened, has a length the algorithm does not have.
  case invalidLength(String)
  /// A public key with which every shared secret is zero (RFC 7748, section 6.1).
  case invalidPublicKey

  package var description: String {
    switch self {
    case .library(let operation, let reason): "libcrypto cannot \(operation): \(reason)"
    case .wrongKey: "the key does not open this, or it was altered"
    case .notAuthentic: "the bytes were not sealed under this key"
    case .invalidLength(let what): "\(what) has an impossible length"
    case .invalidPublicKey: "the public key is of small order"
    }
  }

  /// The error for a call that has just failed; empties libcrypto's error queue of this thread.
  static func failed(to operation: StaticString) -> CryptographyError {
    let code = ERR_peek_last_error()
    ERR_clear_error()
    guard code != 0 else { return .library(operation: "\(operation)", reason: "no reason given") }
    var text = [CChar](repeating: 0, count: 256)
    unsafe text.withUnsafeMutableBufferPointer { unsafe ERR_error_string_n(code, $0.baseAddress, $0.count) }
    let bytes = text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
    return .library(operation: "\(operation)", reason: String(decoding: bytes, as: UTF8.self))
  }
}

/// Throws unless a call of libcrypto returned 1, its one sign of success.
@inline(__always)
func check(_ status: CInt, _ operation: StaticString) throws(CryptographyError) {
  guard status == 1 else { throw .failed(to: operation) }
}

/// The pointer a call of libcrypto returned, unless that is its sign of failure.
@inline(__always)
func check(_ pointer: OpaquePointer?, _ operation: StaticString) throws(CryptographyError) -> OpaquePointer {
  guard let pointer = unsafe pointer else { throw .failed(to: operation) }
  return unsafe pointer
}
