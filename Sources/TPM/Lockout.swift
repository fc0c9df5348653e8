import CTSS2

/// The state of the TPM's dictionary attack protection (TPM 2.0 Library, part 1, section 19.8).
///
/// One counter serves all objects of the TPM that have an authorization. The TPM's answer is not authenticated: it is
/// shown to people, and nothing secret depends on it.
package struct Lockout: Equatable, Sendable {
  /// The number of wrong authorizations that are not forgiven yet (TPM_PT_LOCKOUT_COUNTER).
  package let failures: UInt32
  /// The number at which the TPM locks out (TPM_PT_MAX_AUTH_FAIL).
  package let maximumFailures: UInt32
  /// The number of seconds after which one is forgiven (TPM_PT_LOCKOUT_INTERVAL).
  package let interval: UInt32
  /// The number of seconds after a wrong lockout password before another attempt (TPM_PT_LOCKOUT_RECOVERY).
  package let recovery: UInt32
  /// Whether the TPM accepts no authorization now (TPMA_PERMANENT, inLockout).
  package let isInLockout: Bool
  /// Whether the TPM has a lockout password (TPMA_PERMANENT, lockoutAuthSet). Without one, anyone who may use the TPM
  /// can reset the counter after each guess, so it does not stop an attacker who has the machine (`tpm2_changeauth -c
  /// lockout`).
  package let hasPassword: Bool
}

extension TPM {
  /// The state of the TPM's protection against guessing.
  package func lockout() throws(TPMError) -> Lockout {
    let permanent = try properties(from: .permanent, count: 1)
    let counters = try properties(from: .lockoutCounter, count: 4)
    guard let attributes = permanent[.permanent],
      let failures = counters[.lockoutCounter], let maximum = counters[.maxAuthFail],
      let interval = counters[.lockoutInterval], let recovery = counters[.lockoutRecovery]
    else { throw .unavailable("it does not say how many wrong authorizations it has counted") }
    return Lockout(
      failures: failures, maximumFailures: maximum, interval: interval, recovery: recovery,
      isInLockout: attributes & TPMA_PERMANENT_INLOCKOUT != 0,
      hasPassword: attributes & TPMA_PERMANENT_LOCKOUTAUTHSET != 0)
  }

  /// The properties that are read (TPM_PT, part 2, section 6.13).
  private enum Property: UInt32 {
    case permanent = 0x200
    case lockoutCounter = 0x20E
    case maxAuthFail, lockoutInterval, lockoutRecovery
  }

  /// `count` properties of the TPM from `first` on (TPM2_GetCapability, TPM_CAP_TPM_PROPERTIES).
  private func properties(from first: Property, count: UInt32) throws(TPMError) -> [Property: UInt32] {
    var hasMore: TPMI_YES_NO = 0
    var answer: UnsafeMutablePointer<TPMS_CAPABILITY_DATA>?
    defer { unsafe Esys_Free(answer) }
    try check(
      unsafe Esys_GetCapability(
        context, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, TPM2_CAP(TPM2_CAP_TPM_PROPERTIES), first.rawValue,
        count, &hasMore, &answer),
      "tell its properties")
    guard let answer = unsafe answer else { return [:] }
    var properties: [Property: UInt32] = [:]
    unsafe withUnsafeBytes(of: answer.pointee.data.tpmProperties.tpmProperty) { bytes in
      let entries = unsafe bytes.bindMemory(to: TPMS_TAGGED_PROPERTY.self)
      for index in 0..<min(Int(unsafe answer.pointee.data.tpmProperties.count), entries.count) {
        if let property = Property(rawValue: unsafe entries[index].property) {
          properties[property] = unsafe entries[index].value
        }
      }
    }
    return properties
  }
}
