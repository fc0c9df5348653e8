import CTSS2
import Cryptography

/// The machine's TPM 2.0, which seals small secrets so that only it can open them again, and counts who guesses.
///
/// A sealed object is a file's content as any other: the TPM keeps nothing. It lies under a storage key that the TPM
/// derives anew each time from a seed it never tells, so that the object is worth nothing without this TPM.
///
/// Secrets pass between this process and the TPM encrypted, in sessions salted for the storage key: someone who listens
/// on the bus learns nothing. The public part of the storage key is what the TPM says it is, however. A device put in
/// between, which answers with a storage key of its own, sees what is sealed through it; it cannot open what the TPM
/// sealed before without the authorization, which it can try to guess from what passes, uncounted.
@safe package struct TPM: ~Copyable {
  /// How long a sealed secret may be, in bytes (MAX_SYM_DATA, TPM 2.0 Library, part 2, section 11.1.14).
  package static let secretLengths = 1...128
  /// How long an authorization may be, in bytes: as the object's name algorithm, SHA-256 (part 1, section 19.6.4).
  /// Zeros at its end do not count: the TPM takes them off.
  package static let authorizationLengths = 1...32

  /// What libtss2 knows of the TPM, of loaded objects and of sessions.
  let context: OpaquePointer
  private let transport: Transport

  /// Connects to a TPM. `tcti` is a TCTI of libtss2 with its configuration, as `device:/dev/tpmrm0`, which is the standard
  /// unless the environment says otherwise in `PROTECTFS_TCTI`, as tests do. Throws ``TPMError/unavailable(_:)``.
  package init(tcti: String? = nil) throws(TPMError) {
    let transport = try Transport(tcti)
    var context: OpaquePointer?
    try check(unsafe Esys_Initialize(&context, transport.context, nil), "be used")
    guard let context = unsafe context else { throw .unavailable("libtss2 gives no context") }
    unsafe self.context = context
    self.transport = transport
  }

  deinit {
    // Objects and sessions have flushed themselves.
    var context: OpaquePointer? = unsafe context
    unsafe Esys_Finalize(&context)
  }
}
