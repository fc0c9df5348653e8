import ProtectfsPolicy

/// The parsed bytes of `.protectfs/keybag`. A keybag describes how to obtain the class keys and contains no key in
/// plain.
///
/// The byte table is in Documentation/FORMAT.md. Different records have different bytes, and each accepted string of
/// bytes is the only one for its record.
package struct KeybagRecord: Sendable, Equatable {
  /// The first 8 bytes.
  package static let magic = Array("protkbag".utf8)
  /// The version that this module reads and writes.
  package static let version: UInt16 = 2
  /// The maximum length of a keybag, in bytes.
  package static let longest = 65_536
  /// The same of one that no host has keys in.
  package static let longestWithoutHosts = 16_384
  /// The number of class keys of all classes; 0 if the store was erased.
  package static let classEntryCount = 0...64
  /// The number of former keys.
  package static let formerKeyCount = 0...256
  /// The number of protectors; 0 if the store was erased.
  package static let protectorCount = 0...255
  /// The maximum number of those that are no hosts.
  package static let mostOthers = 16
  /// The numbers of wrong passcodes that may be set for a store to erase itself after.
  package static let eraseAfterRange: ClosedRange<UInt8> = 4...100

  /// The store's identity.
  package var storeID: StoreID
  /// Increases by one with each change.
  package var generation: UInt64
  /// The contents of files are authenticated.
  package let authenticatesContents: Bool
  /// The class of the root directory of a new store.
  package var defaultClass: ProtectionClass
  /// 16 bytes that identify the store's device key.
  package var deviceKeyIdentifier: [UInt8]
  /// The time when the store was created, in seconds since 1970.
  package var creationTime: UInt64
  /// The identifier of the effaceable secret that the class keys are wrapped with, 16 bytes; `nil` if the store has
  /// none.
  package var effaceableIdentifier: [UInt8]?
  /// The number of wrong passcodes after which the store erases itself; `nil` if it does not.
  package var eraseAfter: UInt8?
  /// The class keys, sorted by class. Of several keys of a class the last is the current one: it wraps new file keys.
  package var classEntries: [ClassEntry]
  /// Keys that no longer exist, the latest last.
  package var formerKeys: [FormerKey]
  /// The protectors, sorted by identity.
  package var protectors: [Protector]
  /// The seal, an authentication tag: HMAC-SHA256 over ``bytesBeforeSeal``, under a key that is available only after an
  /// unlock.
  package var seal: [UInt8]
  /// HMAC-SHA256 over ``bytesBeforeTag``, under a key that belongs to the device.
  package var tag: [UInt8]

  /// A key of a class.
  package struct ClassEntry: Sendable, Equatable {
    package var fileClass: ProtectionClass
    /// The identifier that ``FileRecord/classKeyID`` refers to.
    package var id: ClassKeyID
    /// The wrapped key (in class B, the private key), 40 bytes.
    package var wrappedKey: [UInt8]
    /// In class B the public key, 32 bytes.
    package var publicKey: [UInt8]?

    package init(fileClass: ProtectionClass, id: ClassKeyID, wrappedKey: [UInt8], publicKey: [UInt8]?) {
      self.fileClass = fileClass
      self.id = id
      self.wrappedKey = wrappedKey
      self.publicKey = publicKey
    }
  }

  /// What is kept of a class key that no longer exists.
  package struct FormerKey: Sendable, Equatable {
    package var id: ClassKeyID
    package var end: End
    /// The time when it ended, in seconds since 1970.
    package var time: UInt64

    /// How a class key ended.
    package enum End: UInt8, Sendable {
      /// A rotation: no file was under it any longer.
      case rotated = 1
      /// An erasure: its user wanted to destroy the data under it.
      case erased = 2
      /// A reset replaced it, because no protector opened it.
      case reset = 3
    }

    package init(id: ClassKeyID, end: End, time: UInt64) {
      self.id = id
      self.end = end
      self.time = time
    }
  }

  /// A protector: a way to obtain the keybag key.
  package struct Protector: Sendable, Equatable {
    /// 16 random bytes.
    package var id: [UInt8]
    /// The name that users see, at most ``longestLabel`` bytes of UTF-8.
    package var label: String
    /// The keybag key, wrapped under this protector's key, 40 bytes. Of a host, the host key, under a key of the
    /// keybag's.
    package var wrappedKeybagKey: [UInt8]
    /// How the protector's key is obtained.
    package var method: Method

    /// The maximum length of a label, in bytes.
    package static let longestLabel = 64

    /// How a protector's key is obtained.
    package enum Method: Sendable, Equatable {
      /// From a passcode and the device key.
      case passcode(PasscodeDerivation)
      /// From a recovery key alone. It also unwraps the volume's device key, whose wrapping under it is 40 bytes.
      case recoveryKey(wrappedVolumeKey: [UInt8])
      /// From the content of a file and the device key.
      case keyFile
      /// From a passcode, the device key, and a secret that a TPM releases for this passcode only. The sealed object is
      /// the TPM's.
      case trustedPlatformModule(PasscodeDerivation, sealedObject: [UInt8])
      /// In exported keybags: from a passcode alone, which also unwraps the volume's device key.
      case backupPasscode(PasscodeDerivation, wrappedVolumeKey: [UInt8])
      /// A host, which opens the keys of its classes alone, with a host key that its own passcode gives.
      case host(Host)

      /// What a host has.
      package var host: Host? { if case .host(let host) = self { host } else { nil } }
    }

    /// What a host of the store has, beside its host key.
    package struct Host: Sendable, Equatable {
      /// The classes whose keys it has, sorted by their numbers; class D needs none.
      package var classes: [ProtectionClass]
      /// The volume's device key, wrapped under the host's delivery key, 40 bytes.
      package var wrappedVolumeKey: [UInt8]
      /// The class keys of its classes, in the order in which the keybag has them, wrapped for it, 40 bytes each.
      package var wrappedClassKeys: [[UInt8]]
      /// HMAC-SHA256 over ``KeybagRecord/bytesBeforeProtectors`` and the protector's bytes before this, under a key
      /// that only the host and who opens the keybag have.
      package var seal: [UInt8]

      package init(classes: [ProtectionClass], wrappedVolumeKey: [UInt8]) {
        self.classes = classes
        self.wrappedVolumeKey = wrappedVolumeKey
        wrappedClassKeys = []
        seal = [UInt8](repeating: 0, count: 32)
      }
    }

    /// The maximum length of an object sealed by a TPM, in bytes.
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
    storeID: StoreID, generation: UInt64, authenticatesContents: Bool = false, defaultClass: ProtectionClass,
    deviceKeyIdentifier: [UInt8], creationTime: UInt64, effaceableIdentifier: [UInt8]? = nil, eraseAfter: UInt8? = nil,
    classEntries: [ClassEntry], formerKeys: [FormerKey] = [], protectors: [Protector]
  ) {
    self.storeID = storeID
    self.generation = generation
    self.authenticatesContents = authenticatesContents
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
