import Cryptography
import ProtectfsPolicy
import StoreFormat

/// What is to be changed in a keybag, as a value: the same whether a daemon does it or a command without a mount, and
/// done by one function, ``KeybagFile/apply(_:to:)``.
package enum KeybagEdit: ~Copyable, Sendable {
  /// A new passcode: in place of the one that opened the keybag, or, where something else did, of the only one, if
  /// there is one. It stays with the TPM if it was.
  ///
  /// Fails with `invalidPasscode`; `severalPasscodes`, where nothing says which of them is meant.
  case changePasscode(SecretBytes)
  /// One more protector.
  ///
  /// Fails with `invalidPasscode`, `recoveryKeyMistyped`, `keyFileMalformed`, `invalidLabel`, `keybagFull`.
  case addProtector(NewProtector)
  /// Fails with `noSuchProtector`; `lastProtector`, without which nothing would open the store.
  case removeProtector([UInt8])
  /// A new key of a class, which new and changed records use from then on. The old one stays until the rotation ends.
  ///
  /// Fails with `keybagFull` where so many rotations were begun and not finished that there is room for no more keys.
  case beginRotation(ProtectionClass)
  /// Retires all keys of a class but the current one, under which all its files are. `known` are the keys that the
  /// class had during the rotation.
  ///
  /// Fails with `keybagChangedMeanwhile` where the class has others now.
  case finishRotation(ProtectionClass, from: [ClassKeyID])
  /// Erases all keys of a class, and gives it a new one for new files. What was encrypted under them is gone.
  case eraseClass(ProtectionClass)
  /// Makes a machine a host, with the keys of the request's classes; class D needs none.
  ///
  /// Fails with `hostExists`, `hostWithoutClasses`, `keybagFull`.
  case addHost(HostRequest)
  /// Gives the host with an identity the keys of other classes than it has. One that had a key may have kept it.
  ///
  /// Fails with `noSuchProtector`, `hostWithoutClasses`, `keybagFull`.
  case setHost([UInt8], classes: [ProtectionClass])
  /// Takes in the class keys of another keybag of the same store that this one lacks: of an exported one, or of the one
  /// before a reset. Files that were lost are readable again. The current key of a class stays the current one.
  ///
  /// Fails with `foreignKeybag`, `keybagFull`.
  case takeKeys(OpenKeybag)
}

/// What is to open a keybag, under a name that people know it by.
package struct NewProtector: ~Copyable, Sendable {
  package let secret: UnlockSecret
  package let label: String

  package init(_ secret: consuming UnlockSecret, label: String) {
    self.secret = secret
    self.label = label
  }
}

extension KeybagEdit {
  /// The class whose keys it erases.
  package var erasedClass: ProtectionClass? {
    switch self {
    case .eraseClass(let fileClass): fileClass
    default: nil
    }
  }

  /// The identity of the protector that it removes, 16 bytes.
  var removedProtector: [UInt8]? {
    switch self {
    case .removeProtector(let id): id
    default: nil
    }
  }
}

extension OpenKeybag {
  /// The keybag after an edit.
  ///
  /// - Parameter cost: of a new passcode; `nil` for one that is calibrated.
  package func changed(
    by edit: borrowing KeybagEdit, cost: ScryptParameters? = nil
  ) throws(KeyManagementError) -> KeybagChange {
    switch edit {
    case .changePasscode(let new): return try changingPasscode(to: new, cost: cost)
    case .addProtector(let new): return try adding(new, cost: cost)
    case .removeProtector(let id): return try removing(protector: id)
    case .beginRotation(let fileClass): return try beginningRotation(of: fileClass)
    case .finishRotation(let fileClass, let known): return try finishingRotation(of: fileClass, from: known)
    case .eraseClass(let fileClass): return try erasing(fileClass, nil)
    case .addHost(let request): return try adding(request)
    case .setHost(let id, let classes): return try giving(classes, toHost: id)
    case .takeKeys(let other): return try adding(keysOf: other, .newKeys) { _ in true }
    }
  }

  // MARK: Protectors. No class key is changed, so no file is.

  private func changingPasscode(
    to new: borrowing SecretBytes, cost: ScryptParameters?
  ) throws(KeyManagementError) -> KeybagChange {
    let passcodes = keybag.protectors.filter(\.method.takesPasscode)
    let opener = passcodes.first { $0.id == protectorID }
    guard opener != nil || passcodes.count <= 1 else { throw .severalPasscodes }
    let replaced = opener ?? passcodes.first
    let label = replaced?.label ?? "passcode"
    let protector: KeybagRecord.Protector
    if let replaced, case .trustedPlatformModule = replaced.method {
      protector = try keys.protector(forTPM: new, label: label, cost: cost, id: replaced.id)
    } else {
      protector = try keys.protector(for: new, label: label, cost: cost, id: replaced?.id)
    }
    return try retiring { record in
      record.protectors.removeAll { $0.id == replaced?.id }
      record.insert(protector)
    }
  }

  private func adding(
    _ new: borrowing NewProtector, cost: ScryptParameters?
  ) throws(KeyManagementError) -> KeybagChange {
    try requireRoomForProtector()
    guard new.label.utf8.count <= KeybagRecord.Protector.longestLabel else { throw .invalidLabel }
    let protector = try keys.protector(for: new.secret, label: new.label, cost: cost)
    return try extending(.addition) { $0.insert(protector) }
  }

  private func requireRoomForProtector() throws(KeyManagementError) {
    guard keybag.protectors.count < KeybagRecord.protectorCount.upperBound else { throw .keybagFull }
  }

  private func removing(protector id: [UInt8]) throws(KeyManagementError) -> KeybagChange {
    guard keybag.protectors.contains(where: { $0.id == id }) else { throw .noSuchProtector }
    guard keybag.protectors.contains(where: { $0.id != id && $0.method.host == nil }) else { throw .lastProtector }
    return try retiring { $0.protectors.removeAll { $0.id == id } }
  }

  private func adding(_ request: borrowing HostRequest) throws(KeyManagementError) -> KeybagChange {
    try requireRoomForProtector()
    guard !request.classes.isEmpty else { throw .hostWithoutClasses }
    guard !keybag.protectors.contains(where: { $0.id == request.record.id }) else { throw .hostExists }
    let protector = try keys.protector(for: request)
    return try extending(.addition) { $0.insert(protector) }
  }

  private func giving(
    _ classes: [ProtectionClass], toHost id: [UInt8]
  ) throws(KeyManagementError) -> KeybagChange {
    guard let index = keybag.protectors.firstIndex(where: { $0.id == id }),
      var host = keybag.protectors[index].method.host
    else { throw .noSuchProtector }
    let losesNone = host.classes.allSatisfy(classes.contains)
    host.classes = [ProtectionClass].ofHosts.filter(classes.contains)
    guard !host.classes.isEmpty else { throw .hostWithoutClasses }
    let edit = { [host] (record: inout KeybagRecord) in record.protectors[index].method = .host(host) }
    return losesNone ? try extending(.addition, edit) : try retiring(nil, edit)
  }

  // MARK: Class keys

  private func beginningRotation(of fileClass: ProtectionClass) throws(KeyManagementError) -> KeybagChange {
    let most = KeybagRecord.classEntryCount.upperBound / ProtectionClass.allCases.count
    guard keybag.keyIDs(of: fileClass).count < most else { throw .keybagFull }
    let entry = try keys.newEntry(of: fileClass, id: keybag.record.newKeyID())
    return try extending(.newKeys) { $0.insert(entry) }
  }

  private func finishingRotation(
    of fileClass: ProtectionClass, from known: [ClassKeyID]
  ) throws(KeyManagementError) -> KeybagChange {
    guard let current = known.last, known == keybag.keyIDs(of: fileClass) else { throw .keybagChangedMeanwhile }
    return try retiring { record in record.end(.rotated) { $0.fileClass == fileClass && $0.id != current } }
  }

  /// - Parameter fresh: the effaceable secret afterwards, where the keybag has one; `nil` for a new one.
  func erasing(
    _ fileClass: ProtectionClass, _ fresh: consuming EffaceableSecret?
  ) throws(KeyManagementError) -> KeybagChange {
    let entry = try keys.newEntry(of: fileClass, id: keybag.record.newKeyID())
    return try retiring(fresh) { record in
      record.end(.erased) { $0.fileClass == fileClass }
      record.insert(entry)
    }
  }

  /// The keybag with those class keys that only another one has, and that are wanted.
  func adding(
    keysOf other: borrowing OpenKeybag, _ steps: [KeybagStep], where isWanted: (ClassKeyID) -> Bool
  ) throws(KeyManagementError) -> KeybagChange {
    guard other.keybag.storeID == keybag.storeID else { throw .foreignKeybag }
    let wanted = keybag.lacking(keysOf: other.keybag).filter { isWanted($0.id) }
    let added = try keys.rewrapped(wanted, from: other.keys)
    return try extending(steps) { record in
      // Each is put before those that are there.
      for entry in added.reversed() {
        record.formerKeys.removeAll { $0.id == entry.id }
        record.insert(entry, isCurrent: false)
      }
    }
  }

  // MARK: The keybag after it

  /// A change after which everything opens that opened before.
  private func extending(
    _ steps: [KeybagStep], _ edit: (inout KeybagRecord) -> Void
  ) throws(KeyManagementError) -> KeybagChange {
    var record = keybag.record
    try record.advance()
    edit(&record)
    return KeybagChange(try keys.keybag(of: record), secret: .absent(), over: .keybag(keybag), steps)
  }

  /// A change after which something opens nothing any more: a passcode, a class key. The class keys are wrapped with a
  /// new effaceable secret, and the old one is overwritten when the new keybag is in place: older keybags open nothing,
  /// wherever a copy of one is left.
  private func retiring(
    _ fresh: consuming EffaceableSecret? = nil, _ edit: (inout KeybagRecord) -> Void
  ) throws(KeyManagementError) -> KeybagChange {
    guard !keys.effaceable.isAbsent else { return try extending(.retirement, edit) }
    let secret = if let fresh { fresh } else { try EffaceableSecret.random() }
    let after = keys.with(secret)
    var record = keybag.record
    try record.advance()
    edit(&record)
    record.classEntries = try after.rewrapped(record.classEntries, from: keys)
    return KeybagChange(
      try after.keybag(of: record), secret: after.effaceable.copy(), over: .keybag(keybag), .retirement)
  }
}
