import CTSS2
import Testing

/// Operations of a TPM's administrator, with no other connection: swtpm serves one at a time.
@safe struct Administrator: ~Copyable {
  private var transport: OpaquePointer?
  private var context: OpaquePointer?

  init(of machine: borrowing SoftwareTPM) throws {
    try require(unsafe Tss2_TctiLdr_Initialize(machine.tcti, &transport))
    try require(unsafe Esys_Initialize(&context, transport, nil))
  }

  deinit {
    var context = unsafe context
    var transport = unsafe transport
    unsafe Esys_Finalize(&context)
    unsafe Tss2_TctiLdr_Finalize(&transport)
  }

  /// Sets how many wrong authorizations lock the TPM out, and after how many seconds one is forgiven.
  func setLockout(maximumFailures: UInt32, interval: UInt32) throws {
    try require(
      unsafe Esys_DictionaryAttackParameters(
        context, ESYS_TR_RH_LOCKOUT, ESYS_TR_PASSWORD, ESYS_TR_NONE, ESYS_TR_NONE, maximumFailures, interval, 86400))
  }

  /// Forgives all wrong authorizations.
  func resetLockout() throws {
    try require(
      unsafe Esys_DictionaryAttackLockReset(
        context, ESYS_TR_RH_LOCKOUT, ESYS_TR_PASSWORD, ESYS_TR_NONE, ESYS_TR_NONE))
  }

  /// Gives the owner hierarchy a password.
  func setOwnerPassword(_ password: String) throws {
    try setPassword(password, of: ESYS_TR(ESYS_TR_RH_OWNER))
  }

  /// Gives the lockout authority a password.
  func setLockoutPassword(_ password: String) throws {
    try setPassword(password, of: ESYS_TR(ESYS_TR_RH_LOCKOUT))
  }

  private func setPassword(_ password: String, of hierarchy: ESYS_TR) throws {
    var value = TPM2B_AUTH()
    value.size = UInt16(password.utf8.count)
    unsafe withUnsafeMutableBytes(of: &value.buffer) { unsafe $0.copyBytes(from: password.utf8) }
    try require(
      unsafe Esys_HierarchyChangeAuth(
        context, hierarchy, ESYS_TR_PASSWORD, ESYS_TR_NONE, ESYS_TR_NONE, &value))
  }

  /// Makes a primary key with this public area and authorization persistent at 0x81000001.
  func makePersistent(_ publicArea: [UInt8], authorization: [UInt8] = []) throws {
    var template = TPM2B_PUBLIC()
    var offset = 0
    try require(unsafe Tss2_MU_TPM2B_PUBLIC_Unmarshal(publicArea, publicArea.count, &offset, &template))
    var sensitive = TPM2B_SENSITIVE_CREATE()
    sensitive.sensitive.userAuth.size = UInt16(authorization.count)
    unsafe withUnsafeMutableBytes(of: &sensitive.sensitive.userAuth.buffer) { unsafe $0.copyBytes(from: authorization) }
    var outsideInfo = TPM2B_DATA()
    var creationPCR = TPML_PCR_SELECTION()
    var key = ESYS_TR(ESYS_TR_NONE)
    try require(
      unsafe Esys_CreatePrimary(
        context, ESYS_TR_RH_OWNER, ESYS_TR_PASSWORD, ESYS_TR_NONE, ESYS_TR_NONE, &sensitive, &template, &outsideInfo,
        &creationPCR, &key, nil, nil, nil, nil))
    var persistent = ESYS_TR(ESYS_TR_NONE)
    try require(
      unsafe Esys_EvictControl(
        context, ESYS_TR_RH_OWNER, key, ESYS_TR_PASSWORD, ESYS_TR_NONE, ESYS_TR_NONE, 0x8100_0001, &persistent))
    try require(unsafe Esys_FlushContext(context, key))
  }

  /// Removes the persistent key again.
  func removePersistent() throws {
    var key = ESYS_TR(ESYS_TR_NONE)
    try require(
      unsafe Esys_TR_FromTPMPublic(context, 0x8100_0001, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, &key))
    var none = ESYS_TR(ESYS_TR_NONE)
    try require(
      unsafe Esys_EvictControl(
        context, ESYS_TR_RH_OWNER, key, ESYS_TR_PASSWORD, ESYS_TR_NONE, ESYS_TR_NONE, 0x8100_0001, &none))
  }
}

private func require(_ code: TSS2_RC) throws {
  try #require(code == 0, "0x\(String(code, radix: 16))")
}
