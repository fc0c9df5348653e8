import Cryptography
import StoreFormat

/// The device's half of every key of one store: 32 bytes that stand in for the device's UID.
///
/// It is derived from the device key and the store's identity, so that a store opened with its recovery key can be
/// given back its own, without the key of the machine it came from.
package struct VolumeDeviceKey: ~Copyable, Sendable {
  /// The length of a device key and of a volume's device key, in bytes.
  package static let size = 32

  let secret: SecretBytes
  /// What this machine has as a host of the store, where it is one.
  package let host: HostKey?

  /// The key of a store on the device with this device key.
  package init(deviceKey: borrowing SecretBytes, storeID: StoreID) throws(CryptographyError) {
    guard deviceKey.count == Self.size else { throw .invalidLength("a device key") }
    secret = try KeyDerivation.hkdf(
      ikm: deviceKey, salt: storeID.bytes, info: "protectfs volume device key", count: Self.size)
    host = nil
  }

  /// The key that was kept, or that a recovery key gave back; or that of a host, whose own keys come with it.
  package init(_ secret: consuming SecretBytes, host: HostKey? = nil) throws(CryptographyError) {
    guard secret.count == Self.size else { throw .invalidLength("a volume's device key") }
    self.secret = secret
    self.host = host
  }

  /// Whether this machine is a host of the store.
  package var isOfHost: Bool { host != nil }

  /// One more value with the same key.
  func copy() -> VolumeDeviceKey { VolumeDeviceKey(copying: secret, host) }

  private init(copying other: borrowing SecretBytes, _ host: HostKey?) {
    secret = other.copy()
    self.host = host
  }

  /// What keys are derived for; the raw value is the end of HKDF's info.
  enum Use: String, CaseIterable {
    case names = "names"
    case symbolicLinks = "symbolic links"
    case attributeNames = "attribute names"
    case attributeNameHash = "attribute name hash"
    case directoryAttributes = "directory attributes"
    case records = "records"
    case classNone = "class none"
    case keybag = "keybag"
    case attempts = "attempts"
    case hostLocks = "host locks"
    case deviceKeyIdentifier = "device key identifier"

    /// The length of the key, in bytes.
    var count: Int {
      switch self {
      case .names, .symbolicLinks, .attributeNames, .directoryAttributes: NameCipher.Strength.aes256.keySize
      case .attributeNameHash, .records, .classNone, .keybag, .attempts, .hostLocks: 32
      case .deviceKeyIdentifier: 16
      }
    }
  }

  /// The key for a use.
  func key(for use: Use, of storeID: StoreID) throws(CryptographyError) -> SecretBytes {
    try KeyDerivation.hkdf(
      ikm: secret, salt: storeID.bytes, info: "protectfs " + use.rawValue, count: use.count)
  }

  /// The bytes in the keybag that tell whether a device key belongs to a store.
  func identifier(of storeID: StoreID) throws(CryptographyError) -> [UInt8] {
    try unsafe key(for: .deviceKeyIdentifier, of: storeID).withBytes { unsafe Array($0) }
  }
}
