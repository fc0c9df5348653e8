import ProtectfsPolicy

// Parsing. Nothing here is authenticated yet, so every count is bounded before it is used.
extension KeybagRecord {
  /// Parses a keybag. The caller checks the tag before it uses anything from it.
  package init(parsing bytes: [UInt8]) throws(FormatError) {
    var reader = ByteReader(bytes, record: .keybag)
    try reader.require(bytes.count <= Self.longest, "length", "is more than \(Self.longest) bytes")
    try reader.readBeginning(magic: Self.magic, version: Self.version)
    let features = KeybagFeatures(rawValue: try reader.readInteger("features"))
    let unknown = features.subtracting(.known)
    guard unknown.isEmpty else { throw .unknownFeatures(unknown.rawValue) }
    if !features.contains(.hosts) {
      let longest = Self.longestWithoutHosts
      try reader.require(bytes.count <= longest, "length", "is more than \(longest) bytes")
    }

    let storeID = try reader.readStoreID()
    let generation: UInt64 = try reader.readInteger("generation")
    try reader.require(generation > 0, "generation", "is 0")
    let defaultClass = try reader.readClass("default class")
    try reader.require(defaultClass != .none, "default class", "is none")
    let identifier = try reader.read(16, "device key identifier")
    let creationTime: UInt64 = try reader.readInteger("creation time")
    try reader.require(creationTime <= UInt64(Int64.max), "creation time", "is too late")

    let effaceable = features.contains(.effaceableSecret) ? try reader.read(16, "effaceable secret identifier") : nil
    let eraseAfter: UInt8? = features.contains(.eraseAfter) ? try reader.readInteger("erase after") : nil
    if let eraseAfter {
      try reader.require(Self.eraseAfterRange.contains(eraseAfter), "erase after", "\(eraseAfter) is not in 4...100")
    }

    let classEntries = try reader.readClassEntries()
    self.init(
      storeID: storeID, generation: generation, authenticatesContents: features.contains(.authenticatedContents),
      defaultClass: defaultClass, deviceKeyIdentifier: identifier, creationTime: creationTime,
      effaceableIdentifier: effaceable, eraseAfter: eraseAfter,
      classEntries: classEntries, formerKeys: try reader.readFormerKeys(),
      protectors: try reader.readProtectors(classEntries, hasHosts: features.contains(.hosts)))
    try reader.require(self.features == features, "features", "are not those that the keybag has")
    let ids = classEntries.map(\.id) + formerKeys.map(\.id)
    try reader.require(Set(ids).count == ids.count, "identifier of a class key", "is there twice")
    try reader.require(!classEntries.isEmpty || formerKeys.last?.end == .erased, "former keys", "do not end erased")
    try reader.require(
      protectors.isEmpty == classEntries.isEmpty, "number of protectors", "is not that of its class keys")
    seal = try reader.read(32, "seal")
    if classEntries.isEmpty {
      let others = features.subtracting(.authenticatedContents)
      try reader.require(others.isEmpty, "features", "are not those of an erased store")
      try reader.require(seal.allSatisfy { $0 == 0 }, "seal", "is not zeros")
    }
    tag = try reader.read(32, "tag")
    try reader.finish()
  }
}

extension ByteReader {
  mutating func readStoreID() throws(FormatError) -> StoreID {
    guard let storeID = StoreID(bytes: try read(16, "store ID")) else { throw malformed("store ID", "is cut off") }
    return storeID
  }

  fileprivate mutating func readCount(_ bounds: ClosedRange<Int>, _ field: String) throws(FormatError) -> Int {
    let count = Int(try readInteger(field, as: UInt8.self))
    try require(bounds.contains(count), field, "\(count) is not in \(bounds.lowerBound)...\(bounds.upperBound)")
    return count
  }

  fileprivate mutating func readClassEntries() throws(FormatError) -> [KeybagRecord.ClassEntry] {
    var entries: [KeybagRecord.ClassEntry] = []
    for _ in 0..<(try readCount(KeybagRecord.classEntryCount, "number of class keys")) {
      let entry = try readClassEntry()
      if let last = entries.last {
        try require(last.fileClass.rawValue <= entry.fileClass.rawValue, "class keys", "are not sorted by class")
      }
      entries.append(entry)
    }
    for fileClass in ProtectionClass.allCases where !entries.isEmpty {
      let exists = entries.contains { $0.fileClass == fileClass }
      try require(exists, "class keys", "have none of class \(fileClass.letter)")
    }
    return entries
  }

  private mutating func readClassEntry() throws(FormatError) -> KeybagRecord.ClassEntry {
    let fileClass = try readClass("class of a class key")
    let keyType: UInt8 = try readInteger("key type")
    try require(keyType == fileClass.keyType, "key type", "is not the one of class \(fileClass.letter)")
    let id = try readClassKeyID()
    let wrapping: UInt8 = try readInteger("wrapping")
    try require(wrapping == fileClass.wrapping, "wrapping", "is not the one of class \(fileClass.letter)")
    let wrappedKey = try read(40, "wrapped class key")
    let publicKey = keyType == 1 ? try read(32, "public key") : nil
    return KeybagRecord.ClassEntry(fileClass: fileClass, id: id, wrappedKey: wrappedKey, publicKey: publicKey)
  }

  fileprivate mutating func readFormerKeys() throws(FormatError) -> [KeybagRecord.FormerKey] {
    let count = Int(try readInteger("number of former keys", as: UInt16.self))
    try require(KeybagRecord.formerKeyCount.contains(count), "number of former keys", "\(count) is not in 0...256")
    var keys: [KeybagRecord.FormerKey] = []
    for _ in 0..<count {
      let id = try readClassKeyID()
      let number: UInt8 = try readInteger("end of a former key")
      guard let end = KeybagRecord.FormerKey.End(rawValue: number) else {
        throw malformed("end of a former key", "\(number) is not known")
      }
      let time: UInt64 = try readInteger("time of a former key")
      try require(time <= UInt64(Int64.max), "time of a former key", "is too late")
      keys.append(KeybagRecord.FormerKey(id: id, end: end, time: time))
    }
    return keys
  }

  fileprivate mutating func readProtectors(
    _ classEntries: [KeybagRecord.ClassEntry], hasHosts: Bool
  ) throws(FormatError) -> [KeybagRecord.Protector] {
    var protectors: [KeybagRecord.Protector] = []
    let count = hasHosts ? KeybagRecord.protectorCount : 0...KeybagRecord.mostOthers
    for _ in 0..<(try readCount(count, "number of protectors")) {
      let protector = try readProtector(hasHosts ? classEntries : nil)
      if let last = protectors.last {
        try require(last.id.lexicographicallyPrecedes(protector.id), "protectors", "are not sorted by their identity")
      }
      protectors.append(protector)
    }
    let others = protectors.count { $0.method.host == nil }
    try require(others <= KeybagRecord.mostOthers, "protectors", "are more than 16 beside hosts")
    try require(others > 0 || protectors.isEmpty, "protectors", "are hosts alone")
    return protectors
  }

  /// - Parameter classEntries: `nil` in a keybag that has no hosts.
  private mutating func readProtector(
    _ classEntries: [KeybagRecord.ClassEntry]?
  ) throws(FormatError) -> KeybagRecord.Protector {
    let id = try read(16, "identity of a protector")
    let type: UInt8 = try readInteger("type of a protector")
    let label = try readLabel()
    let method: KeybagRecord.Protector.Method
    let wrappedKeybagKey: [UInt8]
    switch (type, classEntries) {
    case (1, _):
      method = .passcode(try readPasscodeDerivation())
      wrappedKeybagKey = try readWrappedKeybagKey()
    case (2, _):
      wrappedKeybagKey = try readWrappedKeybagKey()
      method = .recoveryKey(wrappedVolumeKey: try readWrappedVolumeKey())
    case (3, _):
      method = .keyFile
      wrappedKeybagKey = try readWrappedKeybagKey()
    case (4, _):
      let derivation = try readPasscodeDerivation()
      method = .trustedPlatformModule(derivation, sealedObject: try readSealedObject())
      wrappedKeybagKey = try readWrappedKeybagKey()
    case (5, _):
      let derivation = try readPasscodeDerivation()
      wrappedKeybagKey = try readWrappedKeybagKey()
      method = .backupPasscode(derivation, wrappedVolumeKey: try readWrappedVolumeKey())
    case (6, .some(let classEntries)):
      wrappedKeybagKey = try readWrappedKeybagKey()
      method = .host(try readHost(classEntries))
    default: throw malformed("type of a protector", "\(type) is not known")
    }
    return KeybagRecord.Protector(id: id, label: label, wrappedKeybagKey: wrappedKeybagKey, method: method)
  }

  mutating func readLabel() throws(FormatError) -> String {
    let length = Int(try readInteger("length of a label", as: UInt8.self))
    try require(length <= KeybagRecord.Protector.longestLabel, "length of a label", "is more than 64")
    let bytes = try read(length, "label")
    guard let label = String(validating: bytes, as: UTF8.self) else { throw malformed("label", "is not UTF-8") }
    return label
  }

  private mutating func readHost(
    _ classEntries: [KeybagRecord.ClassEntry]
  ) throws(FormatError) -> KeybagRecord.Protector.Host {
    var host = KeybagRecord.Protector.Host(classes: try readHostClasses(), wrappedVolumeKey: try readWrappedVolumeKey())
    for entry in classEntries where host.classes.contains(entry.fileClass) {
      host.wrappedClassKeys.append(try read(40, "class key of a host"))
    }
    host.seal = try read(32, "seal of a host")
    return host
  }

  mutating func readHostClasses() throws(FormatError) -> [ProtectionClass] {
    let bits: UInt8 = try readInteger("classes of a host")
    guard let classes = [ProtectionClass](hostBits: bits) else {
      throw malformed("classes of a host", "\(bits) stands for none")
    }
    return classes
  }

  private mutating func readWrappedKeybagKey() throws(FormatError) -> [UInt8] { try read(40, "wrapped keybag key") }

  private mutating func readWrappedVolumeKey() throws(FormatError) -> [UInt8] {
    try read(40, "wrapped volume device key")
  }

  private mutating func readSealedObject() throws(FormatError) -> [UInt8] {
    let length = Int(try readInteger("length of a sealed object", as: UInt16.self))
    let bounds = 1...KeybagRecord.Protector.longestSealedObject
    try require(bounds.contains(length), "length of a sealed object", "\(length) is not in 1...1024")
    return try read(length, "sealed object")
  }

  mutating func readPasscodeDerivation() throws(FormatError) -> KeybagRecord.PasscodeDerivation {
    let logN: UInt8 = try readInteger("scrypt log N")
    let r: UInt8 = try readInteger("scrypt r")
    let p: UInt8 = try readInteger("scrypt p")
    // Lower parameters would be a trap: an attacker who can write the keybag could lower the cost and learn quickly
    // which passcode was entered.
    try require((16...22).contains(logN), "scrypt log N", "\(logN) is not in 16...22")
    try require((8...32).contains(r), "scrypt r", "\(r) is not in 8...32")
    try require((1...4).contains(p), "scrypt p", "\(p) is not in 1...4")
    try require((128 * UInt64(r)) << UInt64(logN) <= 1 << 30, "scrypt memory", "is more than 1 GiB")
    return KeybagRecord.PasscodeDerivation(logN: logN, r: r, p: p, salt: try read(32, "scrypt salt"))
  }
}
