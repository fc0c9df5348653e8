import CTSS2
import Cryptography

/// The machine's TPM 2.0, which seals small secrets so that only it can open them again, and limits guessing.
///
/// A sealed object is stored in a file; the TPM keeps nothing. The object is encrypted under a storage key that the TPM
/// derives each time from a seed that never leaves it, so the object is worthless without this TPM.
///
/// Secrets are encrypted between this process and the TPM, in sessions salted for the storage key, so an attacker who
/// listens on the bus learns nothing. However, the public part of the storage key is not verified. A device in between
/// that answers with a storage key of its own sees what is sealed through it. It cannot open what the TPM sealed before
/// without the authorization, but can guess that from the traffic, without the TPM counting.
@safe package struct TPM: ~Copyable {
  /// The possible lengths of a sealed secret, in bytes (MAX_SYM_DATA, TPM 2.0 Library, part 2, section 11.1.14).
  package static let secretLengths = 1...128
  /// The possible lengths of an authorization, in bytes: up to that of the object's name algorithm, SHA-256 (part 1,
  /// section 19.6.4). Zeros at its end do not count: the TPM removes them.
  package static let authorizationLengths = 1...32

  /// libtss2's data on the TPM, on loaded objects and on sessions.
  let context: OpaquePointer
  private let transport: Transport

  /// Connects to a TPM. `tcti` is a TCTI of libtss2 with its configuration, such as `device:/dev/tpmrm0`. That is the
  /// default unless the environment variable `PROTECTFS_TCTI` names another, as tests do. Throws
  /// ``TPMError/unavailable(_:)``.
  package init(tcti: String? = nil) throws(TPMError) {
    let transport = try Transport(tcti)
    var context: OpaquePointer?
    try check(unsafe Esys_Initialize(&context, transport.context, nil), "be used")
    guard let context = unsafe context else { throw .unavailable("libtss2 gives no context") }
    unsafe self.context = context
    self.transport = transport
  }

  deinit {
    // Objects and sessions have been flushed by their handles.
    var context: OpaquePointer? = unsafe context
    unsafe Esys_Finalize(&context)
  }
}
