import Cryptography
import StoreFormat
import TPM

/// A passcode that a TPM has a part in: it keeps a secret, gives it out for this passcode only, and counts wrong ones.
/// On a copy of the disk no passcode can be tried at all.
enum TPMPasscode {
  /// The length of the secret that the TPM keeps, in bytes.
  fileprivate static let secretSize = 32

  /// The keybag key; `nil` for a wrong passcode.
  ///
  /// - Parameter fingerprint: of a wrong passcode.
  /// - Throws: `trustedPlatformModule` when the TPM cannot be asked, or refuses to be.
  static func open(
    _ protector: KeybagRecord.Protector, _ derivation: KeybagRecord.PasscodeDerivation, sealedObject: [UInt8],
    with passcode: borrowing SecretBytes, _ deviceKey: borrowing VolumeDeviceKey, _ storeID: StoreID,
    fingerprint: inout UInt16
  ) throws(KeyManagementError) -> SecretBytes? {
    let stretched = try KeyManagementError.wrapping { () throws(CryptographyError) in
      try PasscodeKey.stretch(passcode, derivation)
    }
    let keys = try Keys(stretched, deviceKey, storeID)
    fingerprint = try keys.fingerprint()
    guard let secret = try unsealed(sealedObject, keys.authorization) else { return nil }
    return try KeyManagementError.wrapping { () throws(CryptographyError) in
      try KeyWrap.unwrap(protector.wrappedKeybagKey, under: keys.key(with: secret))
    }
  }

  private static func unsealed(
    _ object: [UInt8], _ authorization: borrowing SecretBytes
  ) throws(KeyManagementError) -> SecretBytes? {
    let secret: SecretBytes?
    do throws(TPMError) {
      secret = try TPM().unseal(object, authorization: authorization.copy())
    } catch {
      guard error == .wrongAuthorization else { throw .trustedPlatformModule(error) }
      secret = nil
    }
    return secret
  }

  /// What a stretched passcode gives.
  fileprivate struct Keys: ~Copyable {
    /// What the TPM asks for.
    let authorization: SecretBytes
    /// What the passcode and the device key give.
    private let both: SecretBytes
    private let storeID: StoreID

    init(
      _ stretched: borrowing SecretBytes, _ deviceKey: borrowing VolumeDeviceKey, _ storeID: StoreID
    ) throws(KeyManagementError) {
      let both = SecretBytes(stretched, followedBy: deviceKey.secret)
      authorization = try KeyManagementError.wrapping { () throws(CryptographyError) in
        try KeyDerivation.hkdf(ikm: both, salt: storeID.bytes, info: "protectfs tpm authorization", count: 32)
      }
      self.both = both
      self.storeID = storeID
    }

    /// The key that wraps the keybag key.
    func key(with secret: borrowing SecretBytes) throws(CryptographyError) -> SecretBytes {
      try KeyDerivation.hkdf(
        ikm: SecretBytes(both, followedBy: secret), salt: storeID.bytes, info: "protectfs tpm passcode key",
        count: 32)
    }

    func fingerprint() throws(KeyManagementError) -> UInt16 {
      try KeyManagementError.wrapping { () throws(CryptographyError) in
        try PasscodeKey.fingerprint(of: authorization)
      }
    }
  }
}

extension KeybagKeys {
  /// A passcode with a secret that is sealed to the machine's TPM.
  func protector(
    forTPM passcode: borrowing SecretBytes, label: String, cost: ScryptParameters?, id: [UInt8]? = nil
  ) throws(KeyManagementError) -> KeybagRecord.Protector {
    try Keybag.require(passcode: passcode)
    let stretched = try PasscodeKey.stretch(new: passcode, cost: cost)
    let passcodeKeys = try TPMPasscode.Keys(stretched.secret, deviceKey, storeID)
    let secret = try KeyManagementError.wrapping { () throws(CryptographyError) in
      try SecretBytes(randomCount: TPMPasscode.secretSize)
    }
    let object: [UInt8]
    do throws(TPMError) {
      object = try TPM().seal(secret, authorization: passcodeKeys.authorization.copy())
    } catch {
      throw .trustedPlatformModule(error)
    }
    return try KeyManagementError.wrapping { () throws(CryptographyError) in
      try protector(
        label, under: passcodeKeys.key(with: secret),
        .trustedPlatformModule(stretched.derivation, sealedObject: object), id: id)
    }
  }
}
