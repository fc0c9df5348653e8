import CTSS2

/// A response code of libtss2: 0, or the error of one of its layers or of the TPM itself (TPM 2.0 Library, part 2,
/// section 6.6).
struct Response: Equatable {
  let code: UInt32

  init(_ code: TSS2_RC) {
    self.code = code
  }

  var isSuccess: Bool { code == TSS2_RC_SUCCESS }

  /// The TPM's own code, if the answer is from the TPM, or from the resource manager in its place.
  private var answer: UInt32? {
    let layer = code >> UInt32(TSS2_RC_LAYER_SHIFT)
    // TSS2_TPM_RC_LAYER and TSS2_RESMGR_TPM_RC_LAYER.
    return layer == 0 || layer == 12 ? code & 0xFFFF : nil
  }

  /// The error in a format-one code, without the number of the handle, parameter or session.
  private var formatOne: UInt32? {
    guard let answer, answer & 0x080 != 0 else { return nil }
    return answer & 0x0BF
  }

  /// The authorization value is wrong: TPM_RC_AUTH_FAIL, which counts towards lockout, or TPM_RC_BAD_AUTH.
  var isWrongAuthorization: Bool { formatOne == 0x08E || formatOne == 0x0A2 }

  /// The TPM accepts no authorization that is protected against guessing for now: TPM_RC_LOCKOUT.
  var isLockout: Bool { answer == 0x921 }

  /// The TPM refused a parameter (its size, integrity or content), not a handle or a session (TPM_RC_P).
  var isBadParameter: Bool { formatOne != nil && (answer ?? 0) & 0x040 != 0 }

  /// The TPM could not be reached, or went away (TSS2_TCTI_RC_LAYER). If it did so in an earlier call, libtss2 accepts
  /// no more calls (TSS2_ESYS_RC_BAD_SEQUENCE).
  var isTransport: Bool { code >> UInt32(TSS2_RC_LAYER_SHIFT) == 10 || code == 0x7_0007 }

  /// libtss2's text for the code (`Tss2_RC_Decode(3)`).
  var text: String {
    guard let text = unsafe Tss2_RC_Decode(code) else { return "no reason given" }
    return unsafe String(cString: text)
  }
}

/// Throws unless a call of libtss2 succeeded.
func check(_ code: TSS2_RC, _ operation: StaticString) throws(TPMError) {
  let response = Response(code)
  guard response.isSuccess else { throw TPMError(response, operation) }
}
