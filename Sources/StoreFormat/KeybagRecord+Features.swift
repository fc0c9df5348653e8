/// What a keybag may have that a program which does not know it would break or misread. Each bit is set exactly if
/// the keybag has what it stands for (Documentation/FORMAT.md, section 11).
package struct KeybagFeatures: OptionSet, Sendable, Equatable {
  package let rawValue: UInt64

  package init(rawValue: UInt64) {
    self.rawValue = rawValue
  }

  /// Class keys are wrapped with a secret that can be effaced.
  package static let effaceableSecret = KeybagFeatures(rawValue: 1 << 3)
  /// A protector of type 3.
  package static let keyFiles = KeybagFeatures(rawValue: 1 << 4)
  /// A protector of type 4.
  package static let trustedPlatformModule = KeybagFeatures(rawValue: 1 << 5)
  /// A protector of type 5.
  package static let backupPasscodes = KeybagFeatures(rawValue: 1 << 6)
  /// The store erases itself after too many wrong passcodes.
  package static let eraseAfter = KeybagFeatures(rawValue: 1 << 7)
  /// A class key that was erased.
  package static let tombstones = KeybagFeatures(rawValue: 1 << 8)

  /// Records of files may have a rekey pending.
  package static let rekeys = KeybagFeatures(rawValue: 1 << 9)

  /// Those that this version understands.
  package static let known: KeybagFeatures = [
    .effaceableSecret, .keyFiles, .trustedPlatformModule, .backupPasscodes, .eraseAfter, .tombstones, .rekeys,
  ]
}

extension KeybagRecord {
  /// The features that the keybag has.
  package var features: KeybagFeatures {
    var features: KeybagFeatures = []
    if effaceableIdentifier != nil { features.insert(.effaceableSecret) }
    if eraseAfter != nil { features.insert(.eraseAfter) }
    if allowsRekeys { features.insert(.rekeys) }
    for entry in classEntries where entry.erasureTime != nil { features.insert(.tombstones) }
    for protector in protectors { features.formUnion(protector.method.features) }
    return features
  }

  /// When the whole store was erased, in seconds since 1970; `nil` while a class has a key.
  package var erasureTime: UInt64? {
    let times = classEntries.compactMap(\.erasureTime)
    return times.count == classEntries.count ? times.max() : nil
  }

  /// Whether it is what one change made of another. That one may not be authenticated, and of any generation.
  package func follows(_ other: KeybagRecord) -> Bool {
    storeID == other.storeID && generation > other.generation && generation - other.generation == 1
  }
}

extension KeybagRecord.Protector.Method {
  /// What a reader must know to understand it.
  var features: KeybagFeatures {
    switch self {
    case .passcode, .recoveryKey: []
    case .keyFile: .keyFiles
    case .trustedPlatformModule: .trustedPlatformModule
    case .backupPasscode: .backupPasscodes
    }
  }
}
