import DataProtection

/// The bytes of `.protectfs/keybag`, taken apart. It says how to get at the class keys, and holds no key in plain.
///
/// The byte table is in Documentation/FORMAT.md. Two records that differ have different bytes, and each string of bytes
/// that is accepted is the only one for its record.
package struct KeybagRecord: Sendable, Equatable {
  /// The first 8 bytes.
  package static let magic = Array("protkbag".utf8)
  /// The version this module reads and writes.
  package static let version: UInt16 = 1
  /// The features this module knows; version 1 has none.
  package static let knownFeatures: UInt64 = 0
  /// No keybag is longer, in bytes.
  package static let longest = 16_384
  /// How many class keys there may be, all generations counted.
  package static let classEntryCount = 5...64
  /// How many ways in there may be.
  package static let protectorCount = 1...16

  /// Properties of the store without which it must not be touched; bits outside ``knownFeatures`` are refused.
  package var features: UInt64 = 0
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
  /// The class keys, sorted by class and generation; the highest generation of a class wraps new file keys.
  package var classEntries: [ClassEntry]
  /// The ways in, sorted by their identities.
  package var protectors: [Protector]
  /// HMAC-SHA256 over ``bytesBeforeSeal`` under a key that only an unlock yields.
  package var seal: [UInt8]
  /// HMAC-SHA256 over ``bytesBeforeTag`` under a key that belongs to the device.
  package var tag: [UInt8]

  /// One key of one class.
  package struct ClassEntry: Sendable, Equatable {
    package var fileClass: ProtectionClass
    /// From 1; ``FileRecord/generation`` refers to it.
    package var generation: UInt32
    /// The key (of class B: the private key), 40 bytes: under the device's "class none" key in class D, else under the
    /// keybag key.
    package var wrappedKey: [UInt8]
    /// The public key of class B, 32 bytes; of other classes `nil`.
    package var publicKey: [UInt8]?

    package init(fileClass: ProtectionClass, generation: UInt32, wrappedKey: [UInt8], publicKey: [UInt8]?) {
      self.fileClass = fileClass
      self.generation = generation
      self.wrappedKey = wrappedKey
      self.publicKey = publicKey
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
    }

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
    creationTime: UInt64, classEntries: [ClassEntry], protectors: [Protector]
  ) {
    self.storeID = storeID
    self.generation = generation
    self.defaultClass = defaultClass
    self.deviceKeyIdentifier = deviceKeyIdentifier
    self.creationTime = creationTime
    self.classEntries = classEntries
    self.protectors = protectors
    seal = [UInt8](repeating: 0, count: 32)
    tag = [UInt8](repeating: 0, count: 32)
  }
}
