import CTSS2
import Cryptography
import Glibc

extension TPM {
  /// Unseals the secret of an object that ``seal(_:authorization:)`` made on this TPM.
  ///
  /// Throws ``TPMError/malformed`` before anything is sent to the TPM; ``TPMError/wrongAuthorization`` without asking
  /// the TPM if only one of the object and the caller has an authorization; and ``TPMError/wrongAuthorization``,
  /// ``TPMError/lockedOut`` and ``TPMError/foreign`` as the TPM decides. The object does not show who sealed it: anyone
  /// who may use the TPM can make another.
  package func unseal(
    _ object: [UInt8], authorization: borrowing SecretBytes?
  ) throws(TPMError) -> SecretBytes {
    let object = try SealedObject(object)
    var value = SecretStructure<TPM2B_AUTH>()
    switch authorization {
    case .some(let authorization):
      guard object.isProtected else { throw .wrongAuthorization }
      value = try SecretStructure<TPM2B_AUTH>(authorization)
    case .none: guard !object.isProtected else { throw .wrongAuthorization }
    }
    // When the object was sealed, the persistent key may have been another, or missing.
    for source in StorageKeySource.allCases {
      guard let key = try storageKey(source) else { continue }
      let session = try session(saltedFor: key, encrypting: .response)
      if let loaded = try load(object, under: key, in: session) {
        return try unseal(loaded, authorization: &value, under: key, in: session)
      }
    }
    throw .foreign
  }

  /// Loads an object, which the TPM authenticates and decrypts (TPM2_Load, TPM 2.0 Library, part 3, section 12.2).
  /// Returns `nil` if that fails or if the key has an authorization of its own.
  private func load(
    _ object: SealedObject, under key: borrowing Handle, in session: borrowing Handle
  ) throws(TPMError) -> Handle? {
    var (publicArea, privateArea) = try object.structures()
    var number = ESYS_TR(ESYS_TR_NONE)
    let response = Response(
      unsafe Esys_Load(
        context, key.number, session.number, ESYS_TR_NONE, ESYS_TR_NONE, &privateArea, &publicArea, &number))
    guard !response.isBadParameter, !response.isWrongAuthorization else { return nil }
    guard response.isSuccess else { throw TPMError(response, "load a sealed object") }
    return Handle(number, in: self)
  }

  /// Reads the secret of a loaded object (TPM2_Unseal, part 3, section 12.7).
  private func unseal(
    _ object: borrowing Handle, authorization: inout SecretStructure<TPM2B_AUTH>, under key: borrowing Handle,
    in session: borrowing Handle
  ) throws(TPMError) -> SecretBytes {
    try unsafe authorization.withPointer { (value) throws(TPMError) in
      try check(unsafe Esys_TR_SetAuth(context, object.number, value), "take an authorization")
    }
    var data: UnsafeMutablePointer<TPM2B_SENSITIVE_DATA>?
    defer {
      if let data = unsafe data { unsafe explicit_bzero(data, MemoryLayout<TPM2B_SENSITIVE_DATA>.size) }
      unsafe Esys_Free(data)
    }
    let response = Response(
      unsafe Esys_Unseal(context, object.number, session.number, ESYS_TR_NONE, ESYS_TR_NONE, &data))
    wipeResponse()
    wipeAuthorization(of: object, session: session, key: key)
    guard !response.isWrongAuthorization else { throw .wrongAuthorization }
    guard response.isSuccess else { throw TPMError(response, "unseal a secret") }
    guard let data = unsafe data else { throw TPMError(response, "unseal a secret") }
    return unsafe withUnsafeBytes(of: &data.pointee.buffer) { buffer in
      unsafe SecretBytes(copying: UnsafeRawBufferPointer(rebasing: buffer.prefix(Int(data.pointee.size))))
    }
  }
}
