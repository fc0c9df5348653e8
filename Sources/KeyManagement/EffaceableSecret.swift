import Cryptography
import StoreFormat

/// A secret without which no class key of a keybag can be unwrapped: when it is overwritten, all copies of the keybag
/// that were ever written are of no use.
///
/// It stands for what Apple calls Effaceable Storage. Stores of the first version have none: theirs is ``absent``.
package struct EffaceableSecret: ~Copyable, Sendable {
  /// The length of the secret, in bytes.
  package static let size = 32

  /// The secret; no bytes where the store has none.
  var secret: SecretBytes

  /// A new one.
  package init() throws(CryptographyError) {
    secret = try SecretBytes(randomCount: Self.size)
  }

  /// The same, for whom no failure of libcrypto has a meaning.
  static func random() throws(KeyManagementError) -> EffaceableSecret {
    try KeyManagementError.wrapping { () throws(CryptographyError) in try EffaceableSecret() }
  }

  init(_ secret: consuming SecretBytes) {
    self.secret = secret
  }

  /// That of a store that has none.
  package static func absent() -> EffaceableSecret { EffaceableSecret(SecretBytes(count: 0)) }

  func copy() -> EffaceableSecret { EffaceableSecret(secret.copy()) }

  /// Whether the store has none.
  package var isAbsent: Bool { secret.count == 0 }

  /// The bytes in the keybag that tell which secret belongs to it; `nil` where the store has none.
  func identifier(of storeID: StoreID) throws(CryptographyError) -> [UInt8]? {
    guard !isAbsent else { return nil }
    let identifier = try KeyDerivation.hkdf(
      ikm: secret, salt: storeID.bytes, info: "protectfs effaceable secret identifier", count: 16)
    return unsafe identifier.withBytes { unsafe Array($0) }
  }

  /// The key under which the keys of classes A, B, C and CX are wrapped.
  func wrappingKey(
    with keybagKey: borrowing SecretBytes, of storeID: StoreID
  ) throws(CryptographyError) -> SecretBytes {
    if isAbsent { return keybagKey.copy() }
    return try KeyDerivation.hkdf(
      ikm: SecretBytes(keybagKey, followedBy: secret), salt: storeID.bytes, info: "protectfs class keys", count: 32)
  }

  /// The key under which the keys of class D are wrapped.
  func wrappingKey(
    with deviceKey: borrowing VolumeDeviceKey, of storeID: StoreID
  ) throws(CryptographyError) -> SecretBytes {
    let key = try deviceKey.key(for: .classNone, of: storeID)
    if isAbsent { return key }
    return try KeyDerivation.hkdf(
      ikm: SecretBytes(key, followedBy: secret), salt: storeID.bytes, info: "protectfs class none keys", count: 32)
  }
}
