import Cryptography
import ProtectfsPolicy
import StoreFormat

@testable import KeyManagement

/// Whoever has the device key can make any keybag authenticate. Here the first byte says what else they have made right
/// (the seal, the wrappings), and the rest is the keybag, whose tag is made right always.
func fuzzKeybagContents(_ bytes: [UInt8]) {
  guard let made = bytes.first, var record = try? KeybagRecord(parsing: Array(bytes.dropFirst())) else { return }
  let secrets = must("deriving keys") { try KeybagSecrets(of: record.storeID) }
  must("making a keybag right") {
    record.deviceKeyIdentifier = try secrets.deviceKey.identifier(of: record.storeID)
    // An erased store has neither secret nor seal.
    let made = record.classEntries.isEmpty ? made & ~9 : made
    if made & 1 != 0 { record.effaceableIdentifier = try secrets.effaceable.identifier(of: record.storeID) }
    if made & 2 != 0 { try secrets.wrapClassKeys(of: &record) }
    if made & 4 != 0 { try secrets.wrapKeybagKey(in: &record) }
    if made & 8 != 0 { record.seal = try Keybag.seal(of: record, secrets.keybagKey) }
    record.tag = try Keybag.tag(of: record, secrets.deviceKey)
  }
  let keybag = must("parsing a keybag that authenticates") {
    try Keybag(parsing: record.bytes, deviceKey: secrets.deviceKey)
  }
  precondition(keybag.bytes == record.bytes)
  checkUnopened(keybag, secrets)

  let isRight = made & 14 == 14
  for secret in 0..<2 {
    let hasProtector = record.protectors.contains { secret == 0 ? $0.method.isRecoveryKey : $0.method == .keyFile }
    do throws(KeyManagementError) {
      let opened = try keybag.open(
        secret == 0 ? secrets.recoveryKey() : secrets.keyFile(), deviceKey: secrets.deviceKey,
        effaceable: made & 1 != 0 ? secrets.effaceable.copy() : .absent())
      precondition(made & 8 != 0, "what has no seal does not open")
      checkOpened(opened, secrets, isRight: isRight && (made & 1 != 0 || record.effaceableIdentifier == nil))
    } catch {
      precondition(!(isRight && hasProtector), "what is right opens: \(error)")
    }
  }
}

/// What the device key alone can do.
private func checkUnopened(_ keybag: Keybag, _ secrets: borrowing KeybagSecrets) {
  _ = try? keybag.noneClassKeys(deviceKey: secrets.deviceKey, effaceable: secrets.effaceable)
  for fileClass in ProtectionClass.allCases {
    precondition(keybag.keyIDs(of: fileClass).isEmpty == (keybag.erasureTime != nil))
    precondition(!keybag.keyIDs(of: fileClass).contains(where: keybag.isRetired))
  }
  precondition(keybag.lacking(keysOf: keybag).isEmpty)
  precondition(keybag.publicKeys.values.allSatisfy { $0.count == 32 })
  let erased = must("erasing a store") { try keybag.erased(deviceKey: secrets.deviceKey) }
  precondition(erased.erasureTime != nil)
  if keybag.erasureTime == nil { checkSuccessor(erased, of: keybag, secrets) }
}

/// What an opened keybag can do, but for what costs a scrypt.
private func checkOpened(_ opened: borrowing OpenKeybag, _ secrets: borrowing KeybagSecrets, isRight: Bool) {
  do throws(KeyManagementError) {
    _ = try opened.heldKeys()
  } catch {
    precondition(!isRight, "keys that are right unwrap: \(error)")
  }
  for fileClass in ProtectionClass.allCases {
    if let change = try? opened.changed(by: .beginRotation(fileClass)) {
      checkSuccessor(change.keybag, of: opened.keybag, secrets)
      let keys = change.keybag.keyIDs(of: fileClass)
      if let change = try? opened.following(change).changed(by: .finishRotation(fileClass, from: keys)) {
        precondition(change.keybag.keyIDs(of: fileClass).count == 1)
      }
    }
    if let change = try? opened.changed(by: .eraseClass(fileClass)) {
      checkSuccessor(change.keybag, of: opened.keybag, secrets)
    }
  }
  if let change = try? opened.adding(keysOf: opened, .newKeys, where: { _ in true }) {
    checkSuccessor(change.keybag, of: opened.keybag, secrets)
  }
  for protector in opened.keybag.protectors {
    guard let change = try? opened.changed(by: .removeProtector(protector.id)) else { continue }
    checkSuccessor(change.keybag, of: opened.keybag, secrets)
    precondition(!change.keybag.protectors.contains(protector))
  }
}

/// What was written is read back, and takes the place of what it was made from.
private func checkSuccessor(_ keybag: Keybag, of other: Keybag, _ secrets: borrowing KeybagSecrets) {
  let parsed = must("parsing a changed keybag") {
    try Keybag(parsing: keybag.bytes, deviceKey: secrets.deviceKey)
  }
  precondition(parsed == keybag)
  precondition(keybag.record.follows(other.record))
}

extension KeybagRecord.Protector.Method {
  fileprivate var isRecoveryKey: Bool {
    if case .recoveryKey = self { true } else { false }
  }
}
