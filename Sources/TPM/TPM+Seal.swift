import CTSS2
import Cryptography

extension TPM {
  /// Seals a secret of 1 to 128 bytes to this TPM. ``unseal(_:authorization:)`` opens it on this TPM and nowhere else.
  ///
  /// If there is an authorization of 1 to 32 bytes, the TPM requires it and counts wrong ones. Returns the object, at
  /// most 1024 bytes, which is not secret. Throws ``TPMError/invalidLength(_:)``, ``TPMError/unavailable(_:)`` or the
  /// TPM's error.
  package func seal(
    _ secret: borrowing SecretBytes, authorization: borrowing SecretBytes?
  ) throws(TPMError) -> [UInt8] {
    var sensitive = try SecretStructure<TPM2B_SENSITIVE_CREATE>(secret)
    let isProtected: Bool
    switch authorization {
    case .some(let authorization):
      try sensitive.authorize(with: authorization)
      isProtected = true
    case .none: isProtected = false
    }
    for source in StorageKeySource.allCases {
      if let key = try storageKey(source), let object = try seal(&sensitive, isProtected: isProtected, under: key) {
        return object
      }
    }
    throw .unavailable("it has no storage key that may be used")
  }

  /// Creates the object under a storage key (TPM2_Create, TPM 2.0 Library, part 3, section 12.1). Returns `nil` if the
  /// key has an authorization of its own, as a persistent key may.
  private func seal(
    _ sensitive: inout SecretStructure<TPM2B_SENSITIVE_CREATE>, isProtected: Bool, under key: borrowing Handle
  ) throws(TPMError) -> [UInt8]? {
    let session = try session(saltedFor: key, encrypting: .command)
    var template = try PublicArea.structure(PublicArea.sealed(isProtected: isProtected))
    var outsideInfo = TPM2B_DATA()
    var creationPCR = TPML_PCR_SELECTION()
    var privateArea: UnsafeMutablePointer<TPM2B_PRIVATE>?
    var publicArea: UnsafeMutablePointer<TPM2B_PUBLIC>?
    defer {
      unsafe Esys_Free(privateArea)
      unsafe Esys_Free(publicArea)
    }
    let response = unsafe sensitive.withPointer { sensitive in
      Response(
        unsafe Esys_Create(
          context, key.number, session.number, ESYS_TR_NONE, ESYS_TR_NONE, sensitive, &template, &outsideInfo,
          &creationPCR, &privateArea, &publicArea, nil, nil, nil))
    }
    wipeCreation()
    guard !response.isWrongAuthorization else { return nil }
    guard response.isSuccess else { throw TPMError(response, "seal a secret") }
    guard let privateArea = unsafe privateArea?.pointee, let publicArea = unsafe publicArea?.pointee else {
      throw .library(operation: "seal a secret", code: TSS2_RC(TSS2_BASE_RC_GENERAL_FAILURE))
    }
    let bytes = try SealedObject.bytes(publicArea: publicArea, privateArea: privateArea)
    // An object that could not be parsed again must not be stored.
    guard try SealedObject(bytes).isProtected == isProtected else { throw .malformed }
    return bytes
  }
}
