import Cryptography
import StoreFormat

/// A keybag that is to take the place of the one it was made from: a new value, one generation on.
///
/// A change that *revokes* is to make something open nothing any more: a passcode, a class key. Then the class keys are
/// wrapped with a new effaceable secret, and the old one is overwritten when the new keybag is in place: older keybags
/// open nothing, wherever a copy of one is left.
package struct KeybagChange: ~Copyable, Sendable {
  package let keybag: Keybag
  /// The new secret; absent where the old one stays.
  let effaceable: EffaceableSecret
  let revokes: Bool
  /// Whether it has class keys that the keybag before does not have.
  package let addsKeys: Bool

  /// The keybag after a change that was not made by an opened one.
  init(_ keybag: Keybag, revokes: Bool) {
    self.keybag = keybag
    self.revokes = revokes
    addsKeys = false
    effaceable = .absent()
  }

  init(_ keybag: Keybag, effaceable: consuming EffaceableSecret, revokes: Bool, addsKeys: Bool = false) {
    self.keybag = keybag
    self.revokes = revokes
    self.addsKeys = addsKeys
    self.effaceable = effaceable
  }
}

extension OpenKeybag {
  /// The keybag with a record that `edit` changed.
  ///
  /// - Throws: `keybagFull`, `cryptography`, `keybagAltered`.
  func change(
    revokes: Bool, addsKeys: Bool = false, _ edit: (inout KeybagRecord) throws(CryptographyError) -> Void
  ) throws(KeyManagementError) -> KeybagChange {
    var record = keybag.record
    try record.advance()
    do throws(CryptographyError) {
      try edit(&record)
      record.trimFormerKeys()
      guard record.hasRoom else { throw CryptographyError.invalidLength("a keybag") }
      var fresh = EffaceableSecret.absent()
      if revokes, !effaceable.isAbsent {
        fresh = try EffaceableSecret()
        record.classEntries = try rewrapped(record.classEntries, under: keybagKey, fresh)
        record.effaceableIdentifier = try fresh.identifier(of: keybag.storeID)
      }
      return KeybagChange(
        try Keybag(sealing: record, keybagKey: keybagKey, deviceKey: deviceKey), effaceable: fresh, revokes: revokes,
        addsKeys: addsKeys)
    } catch {
      throw error == .invalidLength("a keybag") ? .keybagFull : KeyManagementError(unwrapping: error)
    }
  }
}

extension KeybagRecord {
  /// Makes it one of the next generation.
  ///
  /// - Throws: `keybagFull` where there is none: changes alone do not get there.
  mutating func advance() throws(KeyManagementError) {
    guard generation < .max else { throw .keybagFull }
    generation += 1
  }

  /// Whether it is no longer, and has no more of anything, than a keybag may.
  var hasRoom: Bool {
    Self.protectorCount.contains(protectors.count) && Self.classEntryCount.contains(classEntries.count)
      && bytes.count <= Self.longest
  }
}
