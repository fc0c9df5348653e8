import Cryptography
import StoreFormat

/// A keybag that is to take the place of what is there now.
package struct KeybagChange: ~Copyable, Sendable {
  package let keybag: Keybag
  /// The effaceable secret that comes with it; absent where the old one stays.
  package let secret: EffaceableSecret
  /// What must be in place for that.
  let place: Place
  let steps: [KeybagStep]
  /// What the second copy becomes, where that is another one than the keybag.
  let second: Keybag?

  /// What a keybag takes the place of.
  struct Place: Sendable {
    /// What is there; `nil` for nothing.
    let bytes: [UInt8]?
    /// The identifier of the effaceable secret that must stay until the keybag is in place.
    let secret: [UInt8]?

    static let nothing = Place(bytes: nil, secret: nil)

    static func keybag(_ keybag: Keybag) -> Place {
      Place(bytes: keybag.bytes, secret: keybag.record.effaceableIdentifier)
    }
  }

  init(
    _ keybag: Keybag, secret: consuming EffaceableSecret, over place: Place, _ steps: [KeybagStep],
    second: Keybag? = nil
  ) {
    self.keybag = keybag
    self.secret = secret
    self.place = place
    self.steps = steps
    self.second = second
  }
}

/// A step of a change on disk. Wherever a crash comes, a keybag is in place with the secret that belongs to it, and no
/// class key is lost: the table under "Keybag changes" in ARCHITECTURE.md has what each step leaves, and what
/// ``KeybagFile/repair(_:deviceKey:)`` makes of it.
enum KeybagStep: Sendable {
  /// The new effaceable secret is in the slot that the keybag in place does not use.
  case writeSecret
  /// The keybag is in place; the one before it is the second copy.
  case replaceKeeping
  /// The keybag is in place; the second copy is what it was.
  case replace
  /// The second copy is a copy of the keybag, or the one that is to stay beside it. It comes first where class keys are
  /// in the second copy alone.
  case replaceSecond
  /// The secrets of all other keybags are overwritten.
  case efface
}

extension [KeybagStep] {
  /// The first keybag of a store.
  static let creation: [KeybagStep] = [.writeSecret, .replace, .replaceSecond]
  /// Something more opens the keybag.
  static let addition: [KeybagStep] = [.replaceKeeping]
  /// There are more class keys: files are soon under keys that the keybag before does not have.
  static let newKeys: [KeybagStep] = [.replaceKeeping, .replaceSecond]
  /// There are the class keys that only the second copy had.
  static let union: [KeybagStep] = [.replaceSecond, .replace]
  /// Something opens nothing any more.
  static let retirement: [KeybagStep] = [.writeSecret, .replaceKeeping, .replaceSecond, .efface]
  /// The same, where the second copy has keys of its own, and keeps them.
  static let retirementInBoth: [KeybagStep] = [.writeSecret, .replaceSecond, .replace, .efface]
  /// A reset or an import, which the keybag before undoes.
  static let replacement: [KeybagStep] = [.writeSecret, .replaceKeeping]
  /// An import that the second copy undoes, as it is.
  static let replacementBesideSecondCopy: [KeybagStep] = [.writeSecret, .replace]
}
