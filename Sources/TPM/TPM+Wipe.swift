import CTSS2
import Cryptography
import Glibc

/// Wiping libtss2's copies of secrets. libtss2 keeps them in its context and frees them without wiping. Each is
/// overwritten here, by calls that fill the same place and send nothing to the TPM. The keys of ended sessions remain;
/// they decrypt only a recording of what was sent in those sessions.
extension TPM {
  /// Overwrites the secret and the authorization that a call of TPM2_Create has left (`ESYS_CONTEXT`, its input).
  func wipeCreation() {
    var nothing = TPM2B_SENSITIVE_CREATE()
    guard var template = try? PublicArea.structure(PublicArea.sealed(isProtected: true)) else { return }
    var outsideInfo = TPM2B_DATA()
    var creationPCR = TPML_PCR_SELECTION()
    // libtss2 copies the input before it finds that there is no such parent.
    _ = unsafe Esys_Create_Async(
      context, Self.noObject, ESYS_TR_PASSWORD, ESYS_TR_NONE, ESYS_TR_NONE, &nothing, &template, &outsideInfo,
      &creationPCR)
  }

  /// Overwrites the secret that a call of TPM2_Unseal has left in the response (`TSS2_SYS_CONTEXT`).
  func wipeResponse() {
    var system: OpaquePointer?
    guard unsafe Esys_GetSysContext(context, &system) == TSS2_RC_SUCCESS else { return }
    var count = 0
    var parameters: UnsafePointer<UInt8>?
    guard unsafe Tss2_Sys_GetRpBuffer(system, &count, &parameters) == TSS2_RC_SUCCESS,
      let parameters = unsafe parameters
    else { return }
    unsafe explicit_bzero(UnsafeMutablePointer(mutating: parameters), count)
  }

  /// Overwrites the authorization that an object was used with, in libtss2's data on the object and on the session.
  ///
  /// The session gets another authorization when it is used again with the storage key as the object. That call ends
  /// before anything is sent, because no two sessions of a command may encrypt its response, and this session is passed
  /// twice. If the call were sent, the TPM would refuse it without counting it, since the storage key is not subject to
  /// lockout.
  func wipeAuthorization(of object: borrowing Handle, session: borrowing Handle, key: borrowing Handle) {
    var nothing = TPM2B_AUTH()
    _ = unsafe Esys_TR_SetAuth(context, object.number, &nothing)
    var other = TPM2B_AUTH()
    other.size = UInt16(Self.authorizationLengths.upperBound)
    unsafe withUnsafeMutableBytes(of: &other.buffer) { buffer in
      for index in buffer.indices { unsafe buffer[index] = 0xFF }
    }
    _ = unsafe Esys_TR_SetAuth(context, key.number, &other)
    try? setAttributes(of: session, TPMA_SESSION_ENCRYPT)
    var data: UnsafeMutablePointer<TPM2B_SENSITIVE_DATA>?
    _ = unsafe Esys_Unseal(context, key.number, session.number, session.number, ESYS_TR_NONE, &data)
    unsafe Esys_Free(data)
    _ = unsafe Esys_TR_SetAuth(context, key.number, &nothing)
  }

  /// A number that libtss2 gives to no object. Its numbers begin after ESYS_TR_MIN_OBJECT, 0x1000.
  private static var noObject: ESYS_TR { 0x0FFF_FFFF }
}
