/// What a keybag may have that a program which does not know it would break or misread. Each bit is set exactly if
/// the keybag has what it stands for (Documentation/FORMAT.md, section 11).
package struct KeybagFeatures: OptionSet, Sendable, Equatable {
  package let rawValue: UInt64

  package init(rawValue: UInt64) {
    self.rawValue = rawValue
  }

  /// Class keys are wrapped with a secret that can be effaced.
  package static let effaceableSecret = KeybagFeatures(rawValue: 1 << 3)
  /// The store erases itself after too many wrong passcodes.
  package static let eraseAfter = KeybagFeatures(rawValue: 1 << 4)

  /// Those that this version understands.
  package static let known: KeybagFeatures = [.effaceableSecret, .eraseAfter]
}

extension KeybagRecord {
  /// The features that the keybag has.
  package var features: KeybagFeatures {
    var features: KeybagFeatures = []
    if effaceableIdentifier != nil { features.insert(.effaceableSecret) }
    if eraseAfter != nil { features.insert(.eraseAfter) }
    return features
  }

  /// When the whole store was erased, in seconds since 1970; `nil` while classes have keys.
  package var erasureTime: UInt64? { classEntries.isEmpty ? formerKeys.last?.time : nil }

  /// Whether it is what one change made of another. That one may not be authenticated, and of any generation.
  package func follows(_ other: KeybagRecord) -> Bool {
    storeID == other.storeID && generation > other.generation && generation - other.generation == 1
  }
}
