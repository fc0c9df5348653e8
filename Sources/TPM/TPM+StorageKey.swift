import CTSS2

/// The origin of a storage key.
enum StorageKeySource: CaseIterable {
  /// The storage root key that an administrator has made persistent, as systemd-tpm2-setup(8) does.
  case persistent
  /// Derived by the TPM from the seed of the owner hierarchy: the same key each time, until the TPM is cleared.
  case derived
}

extension TPM {
  /// The handle of the storage root key (TCG TPM v2.0 Provisioning Guidance, section 7.8).
  static var storageRootKey: TPM2_HANDLE { 0x8100_0001 }

  /// A storage key that has the form of ``PublicArea/storageKey``, including fixedTPM: the TPM does not let such a key
  /// leave. `nil` if there is no such persistent key.
  ///
  /// The TPM itself claims that the form is right. The first answer in a session salted for the key proves that the
  /// device has the private key. Nothing here proves that the device is a TPM at all, or the one that was here
  /// yesterday.
  func storageKey(_ source: StorageKeySource) throws(TPMError) -> Handle? {
    switch source {
    case .persistent: try persistentStorageKey()
    case .derived: try derivedStorageKey()
    }
  }

  private func persistentStorageKey() throws(TPMError) -> Handle? {
    var number = ESYS_TR(ESYS_TR_NONE)
    let response = Response(
      unsafe Esys_TR_FromTPMPublic(
        context, Self.storageRootKey, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, &number))
    guard !response.isTransport else { throw TPMError(response, "find a storage key") }
    guard response.isSuccess else { return nil }
    let key = Handle(number, in: self, isPersistent: true)
    var area: UnsafeMutablePointer<TPM2B_PUBLIC>?
    defer { unsafe Esys_Free(area) }
    try check(
      unsafe Esys_ReadPublic(context, number, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, &area, nil, nil),
      "describe a storage key")
    guard let area = unsafe area?.pointee, PublicArea.isStorageKey(area) else {
      return nil
    }
    return key
  }

  private func derivedStorageKey() throws(TPMError) -> Handle {
    var template = try PublicArea.structure(PublicArea.storageKey)
    // The key has no authorization, and no data is sealed in it.
    var sensitive = TPM2B_SENSITIVE_CREATE()
    var outsideInfo = TPM2B_DATA()
    var creationPCR = TPML_PCR_SELECTION()
    var number = ESYS_TR(ESYS_TR_NONE)
    var area: UnsafeMutablePointer<TPM2B_PUBLIC>?
    defer { unsafe Esys_Free(area) }
    let response = Response(
      unsafe Esys_CreatePrimary(
        context, ESYS_TR_RH_OWNER, ESYS_TR_PASSWORD, ESYS_TR_NONE, ESYS_TR_NONE, &sensitive, &template, &outsideInfo,
        &creationPCR, &number, &area, nil, nil, nil))
    if response.isWrongAuthorization {
      throw .unavailable(
        "its owner hierarchy has a password, and there is no ECC storage root key at 0x81000001: make one persistent")
    }
    guard response.isSuccess else { throw TPMError(response, "make a storage key") }
    let key = Handle(number, in: self)
    guard let area = unsafe area?.pointee, PublicArea.isStorageKey(area) else {
      throw .unavailable("it made another storage key than it was asked for")
    }
    return key
  }
}
