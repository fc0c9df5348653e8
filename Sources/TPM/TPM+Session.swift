import CTSS2

extension TPM {
  /// The parameter of a command that is encrypted in a session (TPMA_SESSION, TPM 2.0 Library, part 2, section 8.4).
  enum Encryption {
    /// The command's first parameter, on its way to the TPM.
    case command
    /// The response's first parameter, on its way back.
    case response

    fileprivate var attributes: TPMA_SESSION {
      switch self {
      case .command: TPMA_SESSION_DECRYPT
      case .response: TPMA_SESSION_ENCRYPT
      }
    }
  }

  /// An HMAC session for one command or a few. Each command proves knowledge of an authorization without revealing it,
  /// and a secret is encrypted with AES-128-CFB (part 1, sections 19.6 and 21). The keys are derived from a random
  /// salt, which is generated here and encrypted for the storage key.
  func session(saltedFor key: borrowing Handle, encrypting encryption: Encryption) throws(TPMError) -> Handle {
    var symmetric = TPMT_SYM_DEF()
    symmetric.algorithm = TPM2_ALG_AES
    unsafe symmetric.keyBits.aes = 128
    unsafe symmetric.mode.aes = TPM2_ALG_CFB
    var number = ESYS_TR(ESYS_TR_NONE)
    try check(
      unsafe Esys_StartAuthSession(
        context, key.number, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, nil, TPM2_SE(TPM2_SE_HMAC),
        &symmetric, TPM2_ALG_SHA256, &number),
      "start a session")
    let session = Handle(number, in: self)
    try setAttributes(of: session, encryption.attributes)
    return session
  }

  /// Sets what a session encrypts. The session continues after each command, so that only this code ends it.
  func setAttributes(of session: borrowing Handle, _ attributes: TPMA_SESSION) throws(TPMError) {
    try check(
      unsafe Esys_TRSess_SetAttributes(
        context, session.number, TPMA_SESSION_CONTINUESESSION | attributes,
        TPMA_SESSION_CONTINUESESSION | TPMA_SESSION_DECRYPT | TPMA_SESSION_ENCRYPT),
      "encrypt what passes")
  }
}
