/// The errors of this module.
package enum TPMError: Error, Equatable, Sendable, CustomStringConvertible {
  /// There is no TPM 2.0 that this process may use; the text says why.
  case unavailable(String)
  /// The authorization is wrong, or only one of object and caller has one. If the TPM itself found that out, and the
  /// object has one, it counts towards lockout.
  case wrongAuthorization
  /// The TPM accepts no authorization that is protected against guessing until some time has passed.
  case lockedOut
  /// Another TPM sealed the object, or this one did before it was cleared, or the object was altered: these cannot be
  /// distinguished.
  case foreign
  /// The bytes are not those of a sealed object.
  case malformed
  /// A secret or an authorization has a length that cannot be sealed.
  case invalidLength(String)
  /// libtss2 or the TPM refused something else.
  case library(operation: String, code: UInt32)

  package var description: String {
    switch self {
    case .unavailable(let reason): "no TPM can be used: \(reason)"
    case .wrongAuthorization: "the TPM does not accept this authorization: try another"
    case .lockedOut:
      "the TPM is locked out after too many wrong authorizations: wait and try again, or reset it with its lockout password"
    case .foreign:
      "this TPM did not seal this, or was cleared since, or it was altered: use another way to unlock, then seal anew"
    case .malformed: "these are not the bytes of an object sealed by a TPM: restore them from a backup"
    case .invalidLength(let what): "\(what) has a length that a TPM does not seal"
    case .library(let operation, let code):
      "the TPM cannot \(operation): \(Response(code).text) (0x\(String(code, radix: 16)))"
    }
  }

  /// The error of a failed call of which only the code is known.
  init(_ response: Response, _ operation: StaticString) {
    self =
      if response.isLockout {
        .lockedOut
      } else if response.isTransport {
        .unavailable("it does not answer (\(response.text))")
      } else {
        .library(operation: "\(operation)", code: response.code)
      }
  }
}
