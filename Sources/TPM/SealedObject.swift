import CTSS2

/// A sealed object as it is stored: TPM2B_PUBLIC, then TPM2B_PRIVATE (TPM 2.0 Library, part 2, sections 12.2.5,
/// 12.3.7).
///
/// The public area has a fixed form except for two parts: whether an authorization protects the object, and its digest.
/// Only the TPM that made the private area can read it.
struct SealedObject: Equatable {
  /// The maximum length of an object, in bytes.
  static let maximumCount = 1024
  /// The length of the digest that names the object, a SHA-256.
  private static let digestCount = 32

  /// Whether it has an authorization, and wrong ones count towards lockout (noDA is clear).
  let isProtected: Bool
  /// The unique field of the public area.
  private let digest: [UInt8]
  /// The content of the TPM2B_PRIVATE.
  private let sensitive: [UInt8]

  /// Parses an object; throws ``TPMError/malformed`` for bytes that ``bytes`` would not return.
  init(_ bytes: [UInt8]) throws(TPMError) {
    guard bytes.count <= Self.maximumCount else { throw .malformed }
    let form = PublicArea.sealed(isProtected: true, digest: [UInt8](repeating: 0, count: Self.digestCount))
    // The size in front of the private area has two bytes.
    guard bytes.count > form.count + 2 else { throw .malformed }
    let area = Array(bytes[..<form.count])
    digest = Array(area.suffix(Self.digestCount))
    if area == PublicArea.sealed(isProtected: true, digest: digest) {
      isProtected = true
    } else if area == PublicArea.sealed(isProtected: false, digest: digest) {
      isProtected = false
    } else {
      throw .malformed
    }
    let size = Int(bytes[form.count]) << 8 | Int(bytes[form.count + 1])
    sensitive = Array(bytes[(form.count + 2)...])
    guard sensitive.count == size, size <= Self.sensitiveCapacity else { throw .malformed }
  }

  /// The bytes to store.
  var bytes: [UInt8] {
    let size = UInt16(sensitive.count)
    return PublicArea.sealed(isProtected: isProtected, digest: digest) + [UInt8(size >> 8), UInt8(size & 0xFF)]
      + sensitive
  }

  /// The bytes of an object that the TPM has just made.
  static func bytes(publicArea: TPM2B_PUBLIC, privateArea: TPM2B_PRIVATE) throws(TPMError) -> [UInt8] {
    var privateArea = privateArea
    var bytes = [UInt8](repeating: 0, count: 2 + sensitiveCapacity)
    var offset = 0
    try check(
      unsafe Tss2_MU_TPM2B_PRIVATE_Marshal(&privateArea, &bytes, bytes.count, &offset), "give the content of an object")
    return try PublicArea.bytes(of: publicArea) + bytes.prefix(offset)
  }

  /// The two structures that TPM2_Load takes.
  func structures() throws(TPMError) -> (publicArea: TPM2B_PUBLIC, privateArea: TPM2B_PRIVATE) {
    let publicArea = try PublicArea.structure(PublicArea.sealed(isProtected: isProtected, digest: digest))
    var privateArea = TPM2B_PRIVATE()
    privateArea.size = UInt16(sensitive.count)
    unsafe withUnsafeMutableBytes(of: &privateArea.buffer) { unsafe $0.copyBytes(from: sensitive) }
    return (publicArea, privateArea)
  }

  private static let sensitiveCapacity = MemoryLayout<TPM2B_PRIVATE>.size - MemoryLayout<UInt16>.size
}
