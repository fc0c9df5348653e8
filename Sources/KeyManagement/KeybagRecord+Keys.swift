import Cryptography
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat

// What changes of a keybag are made of.
extension KeybagRecord {
  /// Makes it one of the next generation.
  ///
  /// - Throws: `keybagFull` where there is none: changes alone do not get there.
  mutating func advance() throws(KeyManagementError) {
    guard generation < .max else { throw .keybagFull }
    generation += 1
  }

  /// An identifier that none of its keys has or had.
  func newKeyID() throws(KeyManagementError) -> ClassKeyID {
    while true {
      let bytes = try KeyManagementError.wrapping { () throws(CryptographyError) in try randomBytes(4) }
      guard let id = ClassKeyID(rawValue: bytes.reduce(0) { $0 << 8 | UInt32($1) }),
        !classEntries.contains(where: { $0.id == id }), !formerKeys.contains(where: { $0.id == id })
      else { continue }
      return id
    }
  }

  /// The key of a class that wraps new file keys.
  func currentKeyID(of fileClass: ProtectionClass) -> ClassKeyID? {
    classEntries.last { $0.fileClass == fileClass }?.id
  }

  /// Adds a key in its place: as its class's current one, or as the one that went before all others.
  mutating func insert(_ entry: ClassEntry, isCurrent: Bool = true) {
    let place = classEntries.firstIndex {
      isCurrent ? $0.fileClass.rawValue > entry.fileClass.rawValue : $0.fileClass.rawValue >= entry.fileClass.rawValue
    }
    classEntries.insert(entry, at: place ?? classEntries.count)
  }

  /// Adds a protector in its place.
  mutating func insert(_ protector: Protector) {
    let place = protectors.firstIndex { protector.id.lexicographicallyPrecedes($0.id) }
    protectors.insert(protector, at: place ?? protectors.count)
  }

  /// Takes class keys out, and remembers their identifiers.
  mutating func end(_ end: FormerKey.End, where isEnded: (ClassEntry) -> Bool) {
    let now = WallClock.seconds
    for entry in classEntries where isEnded(entry) { formerKeys.append(FormerKey(id: entry.id, end: end, time: now)) }
    classEntries.removeAll(where: isEnded)
  }

  /// Remembers the keys that other keybags of the store have ended too, in the order in which all ended. What one of
  /// them, or this one, has as a class key is not ended.
  mutating func remember(formerKeysOf others: [KeybagRecord]) {
    var known = Set((others + [self]).flatMap { $0.classEntries.map(\.id) })
    var all: [FormerKey] = []
    for key in others.reduce(formerKeys, { $0 + $1.formerKeys }) where known.insert(key.id).inserted { all.append(key) }
    formerKeys = all.enumerated().sorted { ($0.element.time, $0.offset) < ($1.element.time, $1.offset) }.map(\.element)
  }

  /// Forgets former keys for which there is no room. Of the oldest those go first that were rotated away, under which
  /// nothing is; but those that ended last go last, since the keybag before still has them.
  mutating func trimFormerKeys() {
    while formerKeys.count > Self.formerKeyCount.upperBound || (bytes.count > mostBytes && !formerKeys.isEmpty) {
      formerKeys.remove(at: formerKeys.dropLast(Self.classEntryCount.upperBound).firstIndex { $0.end == .rotated } ?? 0)
    }
  }

  /// Whether it is no longer, and has no more of anything, than a keybag may.
  var hasRoom: Bool {
    Self.protectorCount.contains(protectors.count)
      && protectors.count { $0.method.host == nil } <= Self.mostOthers
      && Self.classEntryCount.contains(classEntries.count)
      && bytes.count <= mostBytes
  }

  private var mostBytes: Int { features.contains(.hosts) ? Self.longest : Self.longestWithoutHosts }
}
