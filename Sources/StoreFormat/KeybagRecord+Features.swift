/// Features of a keybag that a program must know to read it correctly. Each bit is set exactly if the keybag has the
/// feature (Documentation/FORMAT.md, section 11).
package struct KeybagFeatures: OptionSet, Sendable, Equatable {
  package let rawValue: UInt64

  package init(rawValue: UInt64) {
    self.rawValue = rawValue
  }

  /// Contents are authenticated.
  package static let authenticatedContents = KeybagFeatures(rawValue: 1 << 0)
  /// Hosts of the store have class keys of their own.
  package static let hosts = KeybagFeatures(rawValue: 1 << 2)
  /// Class keys are wrapped with an effaceable secret.
  package static let effaceableSecret = KeybagFeatures(rawValue: 1 << 3)
  /// The store erases itself after too many wrong passcodes.
  package static let eraseAfter = KeybagFeatures(rawValue: 1 << 4)

  /// The features that this version knows.
  package static let known: KeybagFeatures = [.authenticatedContents, .hosts, .effaceableSecret, .eraseAfter]
}

extension KeybagRecord {
  /// The keybag's features.
  package var features: KeybagFeatures {
    var features: KeybagFeatures = authenticatesContents ? [.authenticatedContents] : []
    if protectors.contains(where: { $0.method.host != nil }) { features.insert(.hosts) }
    if effaceableIdentifier != nil { features.insert(.effaceableSecret) }
    if eraseAfter != nil { features.insert(.eraseAfter) }
    return features
  }

  /// The time when the whole store was erased, in seconds since 1970; `nil` while classes have keys.
  package var erasureTime: UInt64? { classEntries.isEmpty ? formerKeys.last?.time : nil }

  /// Whether it is what one change made of another. That one may not be authenticated, and of any generation. Nothing
  /// but an erasure comes after the last one.
  package func follows(_ other: KeybagRecord) -> Bool {
    guard storeID == other.storeID else { return false }
    if other.generation == .max { return generation == .max && erasureTime != nil && other.erasureTime == nil }
    return generation == other.generation + 1
  }
}
