import ProtectfsPolicy

/// The bytes of `.protectfs/keybag`, taken apart. It says how to get at the class keys, and holds no key in plain.
///
/// The byte table is in Documentation/FORMAT.md. Two records that differ have different bytes, and each string of bytes
/// that is accepted is the only one for its record.
package struct KeybagRecord: Sendable, Equatable {
  /// The first 8 bytes.
  package static let magic = Array("protkbag".utf8)
  /// The version this module reads and writes.
  package static let version: UInt16 = 2
  /// No keybag is longer, in bytes.
  package static let longest = 16_384
  /// How many class keys there may be, of all classes; none where the store was erased.
  package static let classEntryCount = 0...64
  /// How many keys that are no more there may be.
  package static let formerKeyCount = 0...256
  /// How many ways in there may be; none where the store was erased.
  package static let protectorCount = 0...16
  /// After how many wrong passcodes a store may be told to erase itself.
  package static let eraseAfterRange: ClosedRange<UInt8> = 4...100

  /// The store's identity.
  package var storeID: StoreID
  /// Grows by one with each rewriting.
  package var generation: UInt64
  /// The class of the root directory of a new store.
  package var defaultClass: ProtectionClass
  /// 16 bytes that tell whether a device key belongs to the store.
  package var deviceKeyIdentifier: [UInt8]
  /// When the store was made, in seconds since 1970.
  package var creationTime: UInt64
  /// Which effaceable secret the class keys are wrapped with, 16 bytes; `nil` in stores that have none.
  package var effaceableIdentifier: [UInt8]?
  /// After how many wrong passcodes the store erases itself; `nil`: it does not.
  package var eraseAfter: UInt8?
  /// The class keys, sorted by class. Of several keys of a class the last is current: it wraps new file keys.
  package var classEntries: [ClassEntry]
  /// Keys that are no more, the latest last.
  package var formerKeys: [FormerKey]
  /// The ways in, sorted by their identities.
  package var protectors: [Protector]
  /// HMAC-SHA256 over ``bytesBeforeSeal`` under a key that only an unlock yields.
  package var seal: [UInt8]
  /// HMAC-SHA256 over ``bytesBeforeTag`` under a key that belongs to the device.
  package var tag: [UInt8]

  /// One key of one class.
  package struct ClassEntry: Sendable, Equatable {
    package var fileClass: ProtectionClass
    /// What ``FileRecord/classKeyID`` refers to.
    package var id: ClassKeyID
    /// The key (of class B: the private key), wrapped, 40 bytes.
    package var wrappedKey: [UInt8]
    /// Of class B the public key, 32 bytes.
    package var publicKey: [UInt8]?

    package init(fileClass: ProtectionClass, id: ClassKeyID, wrappedKey: [UInt8], publicKey: [UInt8]?) {
      self.fileClass = fileClass
      self.id = id
      self.wrappedKey = wrappedKey
      self.publicKey = publicKey
    }
  }

  /// What is left of a class key that is no more.
  package struct FormerKey: Sendable, Equatable {
    package var id: ClassKeyID
    package var end: End
    /// When it ended, in seconds since 1970.
    package var time: UInt64

    /// How a class key ended.
    package enum End: UInt8, Sendable {
      /// Nothing was under it any more.
      case rotated = 1
      /// Its user wanted the end of what was under it.
      case erased = 2
      /// A reset took its place, as nothing opened it.
      case reset = 3
    }

    package init(id: ClassKeyID, end: End, time: UInt64) {
      self.id = id
      self.end = end
      self.time = time
    }
  }

  /// A way to the keybag key.
  package struct Protector: Sendable, Equatable {
    /// 16 random bytes.
    package var id: [UInt8]
    /// What people call it, at most ``longestLabel`` bytes of UTF-8.
    package var label: String
    /// The keybag key, wrapped under this protector's key, 40 bytes.
    package var wrappedKeybagKey: [UInt8]
    /// How its key comes about.
    package var method: Method

    /// The longest label, in bytes.
    package static let longestLabel = 64

    /// How a protector's key comes about.
    package enum Method: Sendable, Equatable {
      /// From a passcode and the device key.
      case passcode(PasscodeDerivation)
      /// From a recovery key alone, which also gives the volume's device key back: wrapped under it, 40 bytes.
      case recoveryKey(wrappedVolumeKey: [UInt8])
      /// From the content of a file and the device key.
      case keyFile
      /// From a passcode, the device key, and a secret that a TPM gives out for this passcode only: the object that it
      /// sealed.
      case trustedPlatformModule(PasscodeDerivation, sealedObject: [UInt8])
      /// In exported keybags: from a passcode alone, which also gives the volume's device key back.
      case backupPasscode(PasscodeDerivation, wrappedVolumeKey: [UInt8])
    }

    /// The longest object that a TPM sealed, in bytes.
    package static let longestSealedObject = 1024

    package init(id: [UInt8], label: String, wrappedKeybagKey: [UInt8], method: Method) {
      self.id = id
      self.label = label
      self.wrappedKeybagKey = wrappedKeybagKey
      self.method = method
    }
  }

  /// The parameters of scrypt (RFC 7914).
  package struct PasscodeDerivation: Sendable, Equatable {
    package var logN: UInt8
    package var r: UInt8
    package var p: UInt8
    /// 32 bytes.
    package var salt: [UInt8]

    package init(logN: UInt8, r: UInt8, p: UInt8, salt: [UInt8]) {
      self.logN = logN
      self.r = r
      self.p = p
      self.salt = salt
    }
  }

  /// A record whose seal and tag are still zeros.
  package init(
    storeID: StoreID, generation: UInt64, defaultClass: ProtectionClass, deviceKeyIdentifier: [UInt8],
    creationTime: UInt64, effaceableIdentifier: [UInt8]? = nil, eraseAfter: UInt8? = nil,
    classEntries: [ClassEntry], formerKeys: [FormerKey] = [], protectors: [Protector]
  ) {
    self.storeID = storeID
    self.generation = generation
    self.defaultClass = defaultClass
    self.deviceKeyIdentifier = deviceKeyIdentifier
    self.creationTime = creationTime
    self.effaceableIdentifier = effaceableIdentifier
    self.eraseAfter = eraseAfter
    self.classEntries = classEntries
    self.formerKeys = formerKeys
    self.protectors = protectors
    seal = [UInt8](repeating: 0, count: 32)
    tag = [UInt8](repeating: 0, count: 32)
  }
}
