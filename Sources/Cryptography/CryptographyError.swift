import CLibcrypto

/// The errors of this module.
package enum CryptographyError: Error, Equatable, Sendable, CustomStringConvertible {
  /// libcrypto failed: out of memory, no entropy, or an algorithm that its providers do not offer.
  case library(operation: String, reason: String)
  /// The key is wrong, or the wrapped key was altered: the two cannot be distinguished (RFC 3394).
  case wrongKey
  /// The bytes were not encrypted under this key with this associated data (RFC 5297).
  case notAuthentic
  /// A key or an input has a length that the algorithm does not support.
  case invalidLength(String)
  /// A public key that gives an all-zero shared secret (RFC 7748, section 6.1).
  case invalidPublicKey

  package var description: String {
    switch self {
    case .library(let operation, let reason): "libcrypto cannot \(operation): \(reason)"
    case .wrongKey: "the key does not open this, or it was altered"
    case .notAuthentic: "the bytes were not encrypted under this key"
    case .invalidLength(let what): "\(what) has an impossible length"
    case .invalidPublicKey: "the public key is of small order"
    }
  }

  /// The error of a call that has just failed. Empties libcrypto's error queue of this thread.
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

/// Throws unless a libcrypto call returned 1, which is success.
@inline(__always)
func check(_ status: CInt, _ operation: StaticString) throws(CryptographyError) {
  guard status == 1 else { throw .failed(to: operation) }
}

/// The pointer that a libcrypto call returned; throws if it is null.
@inline(__always)
func check(_ pointer: OpaquePointer?, _ operation: StaticString) throws(CryptographyError) -> OpaquePointer {
  guard let pointer = unsafe pointer else { throw .failed(to: operation) }
  return unsafe pointer
}
