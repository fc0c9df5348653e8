import Cryptography
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat

/// A keybag that is under a key of its own: a new store's, or one whose place nothing opens any more. A passcode opens
/// it, and a recovery key that is kept nowhere.
package struct NewKeybag: ~Copyable, Sendable {
  package let change: KeybagChange
  package let recoveryKey: RecoveryKey

  package var keybag: Keybag { change.keybag }

  /// Gives a record its protectors; `place` says where the keybag goes.
  fileprivate init(
    _ record: consuming KeybagRecord, _ keys: borrowing KeybagKeys, passcode: borrowing SecretBytes,
    cost: ScryptParameters?, _ place: (Keybag) throws(KeyManagementError) -> KeybagChange
  ) throws(KeyManagementError) {
    try Keybag.require(passcode: passcode)
    let recoveryKey = try KeyManagementError.wrapping { () throws(CryptographyError) in try RecoveryKey() }
    record.protectors = []
    record.insert(try keys.protector(for: passcode, cost: cost))
    record.insert(try keys.protector(for: recoveryKey))
    change = try place(try keys.keybag(of: record))
    self.recoveryKey = recoveryKey
  }

  init(_ change: consuming KeybagChange, _ recoveryKey: consuming RecoveryKey) {
    self.change = change
    self.recoveryKey = recoveryKey
  }
}

extension Keybag {
  /// Makes the keys of a new store.
  ///
  /// - Parameters:
  ///   - authenticatesContents: whether the contents of files are authenticated.
  ///   - eraseAfter: after how many wrong passcodes the store erases itself; `nil`: never.
  ///   - cost: the cost of scrypt; by default what takes a tenth of a second here, and at least 64 MiB.
  /// - Throws: `invalidPasscode`, `invalidDefaultClass`, `cryptography`.
  package static func create(
    defaultClass: ProtectionClass = .standard, authenticatesContents: Bool = false, passcode: borrowing SecretBytes,
    deviceKey: borrowing VolumeDeviceKey, storeID: StoreID, eraseAfter: UInt8? = nil, cost: ScryptParameters? = nil
  ) throws(KeyManagementError) -> NewKeybag {
    try require(passcode: passcode)
    guard defaultClass != .none else { throw .invalidDefaultClass }
    let keys = try KeybagKeys(newFor: storeID, deviceKey, .random())
    let identifier = try KeyManagementError.wrapping { () throws(CryptographyError) in
      try deviceKey.identifier(of: storeID)
    }
    var record = KeybagRecord(
      storeID: storeID, generation: 1, authenticatesContents: authenticatesContents, defaultClass: defaultClass,
      deviceKeyIdentifier: identifier, creationTime: WallClock.seconds, eraseAfter: eraseAfter, classEntries: [],
      protectors: [])
    for fileClass in classesInOrder { try keys.addKey(of: fileClass, to: &record) }
    return try NewKeybag(record, keys, passcode: passcode, cost: cost) { keybag in
      KeybagChange(keybag, secret: keys.effaceable.copy(), over: .nothing, .creation)
    }
  }

  /// New keys where the old ones are lost: new protectors, and new keys of classes A, B, C and CX. Files under the old
  /// ones stay unreadable until they are restored from a copy; those of class D stay readable. It needs the device key
  /// only.
  ///
  /// - Parameters:
  ///   - effaceable: `nil` where it is lost; then class D has a new key too.
  /// - Throws: `invalidPasscode`, `storeErased`, `cryptography`.
  package func resetting(
    passcode: borrowing SecretBytes, deviceKey: borrowing VolumeDeviceKey,
    effaceable: consuming EffaceableSecret?, cost: ScryptParameters? = nil
  ) throws(KeyManagementError) -> NewKeybag {
    guard !deviceKey.isOfHost else { throw .hostsChangeNothing }
    try Self.require(passcode: passcode)
    if let time = record.erasureTime { throw .storeErased(at: time) }
    let isLost = effaceable == nil
    let secret = if let effaceable { effaceable } else { try EffaceableSecret.random() }
    let keys = try KeybagKeys(newFor: storeID, deviceKey, secret)
    var changed = record
    try changed.advance()
    for fileClass in Self.classesInOrder where fileClass != .none || isLost {
      changed.end(.reset) { $0.fileClass == fileClass }
      try keys.addKey(of: fileClass, to: &changed)
    }
    return try NewKeybag(changed, keys, passcode: passcode, cost: cost) { keybag in
      KeybagChange(keybag, secret: isLost ? keys.effaceable.copy() : .absent(), over: .keybag(self), .replacement)
    }
  }

  /// The classes in the order of their numbers, in which a keybag has them.
  static let classesInOrder = ProtectionClass.allCases.sorted { $0.rawValue < $1.rawValue }
}

extension OpenKeybag {
  /// A keybag for a store whose own one cannot be opened here, made of this one, which was exported.
  ///
  /// Of classes whose current key is not the current one of the authentic keybags that the store has, it has a new one:
  /// theirs may be older, and its end was wanted. The keys that they have ended stay ended, but for those it brings
  /// back.
  /// - Parameter found: what the store has.
  /// - Throws: `invalidPasscode`, `keybagFull`.
  package func replacement(
    over found: AuthenticKeybags, passcode: borrowing SecretBytes, cost: ScryptParameters? = nil
  ) throws(KeyManagementError) -> NewKeybag {
    try Keybag.require(passcode: passcode)
    let others = found.all.map(\.record)
    let new = try KeybagKeys(newFor: keybag.storeID, keys.deviceKey, .random())
    var record = keybag.record
    record.generation = others.reduce(record.generation) { max($0, $1.generation) }
    try record.advance()
    record.eraseAfter = others.first?.eraseAfter
    record.classEntries = try new.rewrapped(record.classEntries, from: keys)
    for fileClass in Keybag.classesInOrder {
      let current = record.currentKeyID(of: fileClass)
      guard others.contains(where: { $0.currentKeyID(of: fileClass) != current }) else { continue }
      try new.addKey(of: fileClass, to: &record)
    }
    record.remember(formerKeysOf: others)
    return try NewKeybag(record, new, passcode: passcode, cost: cost) { keybag in
      let kept = found.kept(beside: keybag)
      return KeybagChange(
        keybag, secret: new.effaceable.copy(), over: found.place(keeping: kept),
        kept != nil && kept == found.current ? .replacement : .replacementBesideSecondCopy)
    }
  }

  /// A keybag that a passcode alone opens, on any machine, with the volume's device key in it. It shares no key with
  /// this one but the class keys, and no effaceable secret: what erases this one leaves it as it is.
  ///
  /// - Throws: `invalidPasscode`.
  package func exported(
    for passcode: borrowing SecretBytes, cost: ScryptParameters? = nil
  ) throws(KeyManagementError) -> Keybag {
    guard !isOfHost else { throw .hostsChangeNothing }
    try Keybag.require(passcode: passcode)
    let new = try KeybagKeys(newFor: keybag.storeID, keys.deviceKey, .absent())
    var record = keybag.record
    record.eraseAfter = nil
    record.classEntries = try new.rewrapped(record.classEntries, from: keys)
    record.protectors = [try new.protector(forBackup: passcode, cost: cost)]
    return try new.keybag(of: record)
  }
}

extension StoreID {
  /// A random identity (RFC 9562, section 5.4: version 4).
  package static func random() throws(CryptographyError) -> StoreID {
    var bytes = try randomBytes(16)
    bytes[6] = bytes[6] & 0x0f | 0x40
    bytes[8] = bytes[8] & 0x3f | 0x80
    guard let id = StoreID(bytes: bytes) else { throw .invalidLength("a store's identity") }
    return id
  }
}
