import DataProtection

// Bytes taken apart. Nothing here is authenticated yet: every count is bounded before it is used.
extension KeybagRecord {
  /// Reads a keybag. Whether its tag is right is for the caller to check, before anything it says is used.
  package init(parsing bytes: [UInt8]) throws(FormatError) {
    var reader = ByteReader(bytes, record: .keybag)
    try reader.require(bytes.count <= Self.longest, "length", "is more than \(Self.longest) bytes")
    let magic = try reader.read(8, "magic")
    try reader.require(magic == Self.magic, "magic", "is not 'protkbag'")
    let version: UInt16 = try reader.readInteger("version")
    guard version == Self.version else { throw .unsupportedVersion(record: .keybag, version: version) }
    let features: UInt64 = try reader.readInteger("features")
    guard features & ~Self.knownFeatures == 0 else { throw .unknownFeatures(features & ~Self.knownFeatures) }

    let id = try reader.read(16, "store ID")
    guard let storeID = StoreID(bytes: id) else { throw reader.malformed("store ID", "is cut off") }
    let generation: UInt64 = try reader.readInteger("generation")
    try reader.require(generation > 0, "generation", "is 0")
    let defaultClass = try reader.readClass("default class")
    try reader.require(defaultClass != .none, "default class", "is none")
    let identifier = try reader.read(16, "device key identifier")
    let creationTime: UInt64 = try reader.readInteger("creation time")
    try reader.require(creationTime <= UInt64(Int64.max), "creation time", "is too late")

    self.init(
      storeID: storeID, generation: generation, defaultClass: defaultClass, deviceKeyIdentifier: identifier,
      creationTime: creationTime, classEntries: try reader.readClassEntries(),
      protectors: try reader.readProtectors())
    self.features = features
    seal = try reader.read(32, "seal")
    tag = try reader.read(32, "tag")
    try reader.finish()
  }
}

extension ByteReader {
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
        let isSorted = (last.fileClass.rawValue, last.generation) < (entry.fileClass.rawValue, entry.generation)
        try require(isSorted, "class keys", "are not sorted by class and generation")
      }
      entries.append(entry)
    }
    for fileClass in ProtectionClass.allCases {
      let exists = entries.contains { $0.fileClass == fileClass }
      try require(exists, "class keys", "have none of class \(fileClass.letter)")
    }
    return entries
  }

  private mutating func readClassEntry() throws(FormatError) -> KeybagRecord.ClassEntry {
    let fileClass = try readClass("class of a class key")
    let keyType: UInt8 = try readInteger("key type")
    try require(keyType == fileClass.keyType, "key type", "is not the one of class \(fileClass.letter)")
    let generation: UInt32 = try readInteger("generation of a class key")
    try require(generation > 0, "generation of a class key", "is 0")
    let wrapping: UInt8 = try readInteger("wrapping")
    try require(wrapping == fileClass.wrapping, "wrapping", "is not the one of class \(fileClass.letter)")
    return KeybagRecord.ClassEntry(
      fileClass: fileClass, generation: generation, wrappedKey: try read(40, "wrapped class key"),
      publicKey: keyType == 1 ? try read(32, "public key") : nil)
  }

  fileprivate mutating func readProtectors() throws(FormatError) -> [KeybagRecord.Protector] {
    var protectors: [KeybagRecord.Protector] = []
    for _ in 0..<(try readCount(KeybagRecord.protectorCount, "number of protectors")) {
      let protector = try readProtector()
      if let last = protectors.last {
        try require(last.id.lexicographicallyPrecedes(protector.id), "protectors", "are not sorted by their identity")
      }
      protectors.append(protector)
    }
    return protectors
  }

  private mutating func readProtector() throws(FormatError) -> KeybagRecord.Protector {
    let id = try read(16, "identity of a protector")
    let type: UInt8 = try readInteger("type of a protector")
    let length = Int(try readInteger("length of a label", as: UInt8.self))
    try require(length <= KeybagRecord.Protector.longestLabel, "length of a label", "is more than 64")
    let bytes = try read(length, "label")
    guard let label = String(validating: bytes, as: UTF8.self) else { throw malformed("label", "is not UTF-8") }
    switch type {
    case 1:
      let derivation = try readPasscodeDerivation()
      return KeybagRecord.Protector(
        id: id, label: label, wrappedKeybagKey: try read(40, "wrapped keybag key"), method: .passcode(derivation))
    case 2:
      let wrappedKeybagKey = try read(40, "wrapped keybag key")
      return KeybagRecord.Protector(
        id: id, label: label, wrappedKeybagKey: wrappedKeybagKey,
        method: .recoveryKey(wrappedVolumeKey: try read(40, "wrapped volume device key")))
    default: throw malformed("type of a protector", "\(type) is not known")
    }
  }

  private mutating func readPasscodeDerivation() throws(FormatError) -> KeybagRecord.PasscodeDerivation {
    let logN: UInt8 = try readInteger("scrypt log N")
    let r: UInt8 = try readInteger("scrypt r")
    let p: UInt8 = try readInteger("scrypt p")
    try require((14...22).contains(logN), "scrypt log N", "\(logN) is not in 14...22")
    try require((8...32).contains(r), "scrypt r", "\(r) is not in 8...32")
    try require((1...4).contains(p), "scrypt p", "\(p) is not in 1...4")
    try require((128 * UInt64(r)) << UInt64(logN) <= 1 << 30, "scrypt memory", "is more than 1 GiB")
    return KeybagRecord.PasscodeDerivation(logN: logN, r: r, p: p, salt: try read(32, "scrypt salt"))
  }
}
