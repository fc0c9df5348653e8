import CTSS2

/// Public areas in the TPM's encoding, big-endian (TPM2B_PUBLIC, TPM 2.0 Library, part 2, section 12.2.5).
enum PublicArea {
  /// The common part of every storage key: all but the size in front and the point at the end.
  ///
  /// This is the template of the storage root key for ECC (TCG TPM v2.0 Provisioning Guidance, section 7.5.1; TCG EK
  /// Credential Profile, template L-2): fixedTPM, fixedParent, sensitiveDataOrigin, userWithAuth, noDA, restricted,
  /// decrypt.
  private static let storageKeyStart: [UInt8] = [
    0x00, 0x23,  // type: TPM_ALG_ECC
    0x00, 0x0B,  // nameAlg: TPM_ALG_SHA256
    0x00, 0x03, 0x04, 0x72,  // objectAttributes
    0x00, 0x00,  // authPolicy: none
    0x00, 0x06, 0x00, 0x80, 0x00, 0x43,  // symmetric: TPM_ALG_AES, 128 bits, TPM_ALG_CFB
    0x00, 0x10,  // scheme: TPM_ALG_NULL
    0x00, 0x03,  // curveID: TPM_ECC_NIST_P256
    0x00, 0x10,  // kdf: TPM_ALG_NULL
  ]

  /// The template of the storage key, with a point of zeros in place of the one that the TPM derives.
  static let storageKey: [UInt8] = {
    let coordinate: [UInt8] = [0x00, 0x20] + [UInt8](repeating: 0, count: 32)
    let area = storageKeyStart + coordinate + coordinate
    return [0x00, UInt8(area.count)] + area
  }()

  /// Whether a key of the TPM matches ``storageKey``.
  static func isStorageKey(_ area: TPM2B_PUBLIC) -> Bool {
    guard let bytes = try? bytes(of: area) else { return false }
    return bytes.dropFirst(2).starts(with: storageKeyStart)
  }

  /// A sealed data object: fixedTPM, fixedParent, userWithAuth, and noDA unless an authorization protects it. `digest`
  /// is the object's unique field; it is empty in a template.
  static func sealed(isProtected: Bool, digest: [UInt8] = []) -> [UInt8] {
    let area: [UInt8] =
      [
        0x00, 0x08,  // type: TPM_ALG_KEYEDHASH
        0x00, 0x0B,  // nameAlg: TPM_ALG_SHA256
        0x00, 0x00, isProtected ? 0x00 : 0x04, 0x52,  // objectAttributes
        0x00, 0x00,  // authPolicy: none
        0x00, 0x10,  // scheme: TPM_ALG_NULL
        0x00, UInt8(digest.count),  // unique
      ] + digest
    return [0x00, UInt8(area.count)] + area
  }

  /// The structure for libtss2.
  static func structure(_ bytes: [UInt8]) throws(TPMError) -> TPM2B_PUBLIC {
    var area = TPM2B_PUBLIC()
    var offset = 0
    try check(
      unsafe Tss2_MU_TPM2B_PUBLIC_Unmarshal(bytes, bytes.count, &offset, &area), "take the description of an object")
    return area
  }

  /// The bytes of a structure from libtss2.
  static func bytes(of area: TPM2B_PUBLIC) throws(TPMError) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: MemoryLayout<TPM2B_PUBLIC>.size)
    var area = area
    var offset = 0
    try check(
      unsafe Tss2_MU_TPM2B_PUBLIC_Marshal(&area, &bytes, bytes.count, &offset), "give the description of an object")
    return Array(bytes.prefix(offset))
  }
}
